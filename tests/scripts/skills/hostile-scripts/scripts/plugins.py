"""Tries every way to run a file that the call wrote."""
import importlib.util
import runpy
import site
import sys


def by_location(path):
    spec = importlib.util.spec_from_file_location("plugin", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def by_path(path):
    sys.path.insert(0, path)
    import plugin  # noqa: F401: it is the call's


def by_loader(path):
    importlib.machinery.SourceFileLoader("plugin", path).load_module()


for act, path in [
    (by_location, "given/plugin.py"), (by_location, "given/plugin.pyc"), (by_loader, "given/plugin.py"),
    (runpy.run_path, "given/plugin.py"), (by_path, "given"), (by_path, "given/plugin.zip"),
    (site.addsitedir, "given"),
]:
    try:
        act(path)
        print(act.__name__, path, "ended")
    except Exception as error:
        print(act.__name__, path, type(error).__name__)
