"""Tries every way to run a file that the call wrote."""
import _frozen_importlib_external as internal
import importlib.util
import runpy
import site
import sys
import zipimport


def by_location(path):
    spec = importlib.util.spec_from_file_location("plugin", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def by_path(path):
    sys.path.insert(0, path)
    import plugin  # noqa: F401: it is the call's


def by_loader(path):
    importlib.machinery.SourceFileLoader("plugin", path).load_module()


def by_inner_loader(path):
    exec(internal.SourceFileLoader("plugin", path).get_code("plugin"))


def by_compiled(path):
    with open(path + "c", "wb") as file:
        file.write(internal._code_to_timestamp_pyc(compile(open(path).read(), path, "exec")))
    exec(importlib.machinery.SourcelessFileLoader("plugin", path + "c").get_code("plugin"))


def by_zip(path):
    exec(zipimport.zipimporter(path).get_code("plugin"))


for act, path in [
    (by_location, "given/plugin.py"), (by_location, "given/plugin.pyc"), (by_loader, "given/plugin.py"),
    (runpy.run_path, "given/plugin.py"), (by_path, "given"), (by_path, "given/plugin.zip"),
    (site.addsitedir, "given"), (by_inner_loader, "given/plugin.py"), (by_compiled, "given/plugin.py"),
    (by_zip, "given/plugin.zip"),
]:
    try:
        act(path)
        print(act.__name__, path, "ended")
    except Exception as error:
        print(act.__name__, path, type(error).__name__)
