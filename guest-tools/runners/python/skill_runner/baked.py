"""Every module that a script can import. A call finds no files of Python's own, so all modules are
imported when the component is built: the standard library, and the packages of `requirements.txt`.
During a run they are offered by a finder behind that of the file system, as the standard library
lies behind the script's folder: a module of the skill goes before one of the same name."""

import errno
import importlib
import importlib.machinery
import importlib.metadata
import io
import os
import pkgutil
import sys
import warnings
import zipfile
from importlib.resources.abc import TraversableResources

from . import modules

# Modules that do something when they are imported, or are of no use to a script.
LEFT_OUT = {
    "__main__", "antigravity", "this", "idlelib", "turtledemo", "test", "lib2to3", "tkinter",
    "turtle", "ensurepip", "pydoc_data", "pip", "setuptools", "pkg_resources", "_distutils_hack",
    "componentize_py", "wheel", "msilib",
}
# The largest data file of a package that is baked in. Guards against: a component that is too large.
LARGEST_DATA = 1 << 20
# What an interpreter has loaded when a script begins, besides what is built in or frozen.
STARTED = {"encodings", "encodings.aliases", "encodings.utf_8", "os.path", "warnings"}
# What most scripts import.
USUAL = (
    "argparse", "json", "re", "pathlib", "datetime", "collections", "csv", "typing", "dataclasses", "shutil",
    "subprocess", "tempfile", "traceback", "atexit", "textwrap", "string", "random", "hashlib", "base64",
)
# Modules of the runner and of the layer below it.
OWN = ("skill_runner", "tool", "wit_world", "componentize_py")


def is_own(name):
    return name.partition(".")[0].startswith(OWN)


class Baked:
    """The modules, as a finder and a loader."""

    def __init__(self):
        self.modules = {}
        self._files = Files(self.has)
        # Modules that could not be imported, and why.
        self.failed = {}
        # Called with the name of a module that nobody has, and the folders of its package.
        self.missing = lambda name, path: None

    def load(self):
        """Imports everything there is."""
        own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # What most scripts import lies side by side: a call touches fewer pages.
            for name in USUAL:
                self._import(name)
            names = set(sys.stdlib_module_names)
            for folder in sys.path:
                if os.path.abspath(folder or ".") != own:
                    names |= {module.name for module in pkgutil.iter_modules([folder])}
            for name in sorted(names):
                self._import(name)
        self._data = _data_files(own)
        self.modules = {
            name: module for name, module in sys.modules.items()
            if module is not None and not is_own(name) and name != "__main__"
        }
        importers = (importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter)
        self._started = STARTED | {
            name for name, module in self.modules.items()
            if getattr(module, "__loader__", None) in importers
        }
        # Packages look their extensions and versions up by files that a call does not have.
        entry_points = importlib.metadata.entry_points()
        importlib.metadata.entry_points = lambda **wanted: entry_points.select(**wanted)
        versions = {found.name.lower(): found.version for found in importlib.metadata.distributions()}

        def version(name):
            try:
                return versions[name.lower()]
            except KeyError:
                raise importlib.metadata.PackageNotFoundError(name) from None

        importlib.metadata.version = version

    def _import(self, name):
        if name.partition(".")[0] in LEFT_OUT or name.endswith(".__main__") or is_own(name):
            return
        if ".tests" in name or ".test_" in name:
            return
        try:
            module = importlib.import_module(name)
        except BaseException as error:
            self.failed[name] = repr(error)
            return
        if hasattr(module, "__path__"):
            for found in pkgutil.iter_modules(module.__path__):
                self._import(f"{name}.{found.name}")

    def has(self, name):
        return name in self.modules

    def find_spec(self, name, path=None, target=None):
        module = self.modules.get(name)
        if module is None:
            self.missing(name, path)
            return None
        found = getattr(module, "__spec__", None)
        spec = importlib.machinery.ModuleSpec(
            name, self, origin=getattr(found, "origin", None),
            is_package=hasattr(module, "__path__"))
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.extend(module.__path__)
        return spec

    def create_module(self, spec):
        return self.modules[spec.name]

    def exec_module(self, module):
        """Does nothing: the module has run."""

    def settle(self):
        """Leaves in `sys.modules` what a new interpreter has there, and what the component itself needs. That
        is the build's work: it touches each module."""
        for name in list(sys.modules):
            if name not in self._started and not is_own(name) and name != "__main__":
                del sys.modules[name]
        # The build's folders still have the modules. What is built in or frozen is loaded already.
        sys.meta_path[:] = [self, self._files]
        # The audit log has the modules' sources, so nothing is loaded without its own.
        sys.path_hooks[:] = [modules.Finder.of]
        # They name all files of the build's folders.
        sys.path_importer_cache.clear()

    def enter(self, main):
        """Begins a script. Returns the modules that it must not see."""
        hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name not in self._started}
        sys.modules["__main__"] = main
        sys.meta_path[:] = [self._files, self]
        return hidden

    # Data files of packages.

    def get_data(self, path):
        try:
            return self._data.read(path.lstrip("/"))
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def get_resource_reader(self, name):
        folder = self.modules[name].__path__[0].strip("/") + "/"
        return Resources(zipfile.Path(self._data, folder))


class Files:
    """Finds modules of the skill."""

    def __init__(self, is_baked):
        self._is_baked = is_baked

    def find_spec(self, name, path=None, target=None):
        try:
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        except OSError:
            # A call that may open no more files still has what is baked in.
            return None
        # A folder without `__init__.py` comes after every module.
        is_folder = spec is not None and spec.loader is None
        return None if is_folder and self._is_baked(name) else spec

    invalidate_caches = staticmethod(importlib.machinery.PathFinder.invalidate_caches)


class Resources(TraversableResources):
    """The data files of one package, as `importlib.resources` asks for them."""

    def __init__(self, folder):
        self._folder = folder

    def files(self):
        return self._folder


def _data_files(own):
    """An archive of the packages' files that are no modules."""
    library = os.path.dirname(os.path.dirname(zipfile.__file__))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for folder in sys.path:
            if os.path.abspath(folder or ".") in (own, library) or not os.path.isdir(folder):
                continue
            for package in sorted(os.listdir(folder)):
                if package in sys.modules:
                    _add(archive, f"{folder}/{package}")
    return zipfile.ZipFile(io.BytesIO(data.getvalue()))


def _add(archive, folder):
    for place, _, names in os.walk(folder):
        for name in names:
            path = f"{place}/{name}"
            if not name.endswith((".py", ".pyc", ".pyi", ".so", ".c")) and os.path.getsize(path) <= LARGEST_DATA:
                archive.write(path, path.lstrip("/"))
