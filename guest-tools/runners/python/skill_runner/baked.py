"""The library modules that a script can import: the standard library, and the packages of
`requirements.txt`. A call has no files of Python's own, so the build imports all modules.

During a run, a finder provides these modules. It comes after the finder of the skill's files, so a
module of the skill takes precedence over a library module of the same name."""

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

import wit_world

from . import modules

# Modules that are not imported: their import has side effects, or scripts do not need them.
EXCLUDED = {
    "__main__", "antigravity", "this", "idlelib", "turtledemo", "test", "lib2to3", "tkinter",
    "turtle", "ensurepip", "pydoc_data", "pip", "setuptools", "pkg_resources", "_distutils_hack",
    "componentize_py", "wheel", "msilib",
}
# The maximum size of a package's data file in the component. Guards against: a component that is too large.
MAX_DATA_BYTES = 1 << 20
# The modules that an interpreter has loaded when a script starts, besides built-in and frozen ones.
INITIAL = {"encodings", "encodings.aliases", "encodings.utf_8", "os.path", "warnings"}
# The modules that most scripts import.
COMMON = (
    "argparse", "json", "re", "pathlib", "datetime", "collections", "csv", "typing", "dataclasses", "shutil",
    "subprocess", "tempfile", "traceback", "atexit", "textwrap", "string", "random", "hashlib", "base64",
)
# The first parts of the names of the runner's own modules.
RUNNER_PREFIXES = ("skill_runner", "skillhost_http", "skillhost_memory", "tool", "wit_world", "componentize_py")


def is_runner_module(name):
    return name.partition(".")[0].startswith(RUNNER_PREFIXES)


class Baked:
    """The library modules, as a finder and a loader."""

    def __init__(self):
        self.modules = {}
        self._files = Files(self.has)
        # The errors of modules that could not be imported, by name.
        self.failed = {}
        # The versions of the packages, by their names.
        self.versions = {}
        # A function that is called with the name of a missing module and the folders of its package.
        self.missing = lambda name, path: None

    def load(self):
        """Imports all library modules."""
        runner_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Import these first, so that they are next to each other and a call touches fewer pages.
            for name in COMMON:
                self._import(name)
            names = set(sys.stdlib_module_names)
            for folder in sys.path:
                if os.path.abspath(folder or ".") != runner_folder:
                    names |= {module.name for module in pkgutil.iter_modules([folder])}
            for name in sorted(names):
                self._import(name)
        # The compiler imports these after the end of the build.
        for module in pkgutil.walk_packages(wit_world.__path__, "wit_world."):
            importlib.import_module(module.name)
        self._data = _data_files(runner_folder)
        self.modules = {
            name: module for name, module in sys.modules.items()
            if module is not None and not is_runner_module(name) and name != "__main__"
        }
        importers = (importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter)
        self._initial = INITIAL | {
            name for name, module in self.modules.items()
            if getattr(module, "__loader__", None) in importers
        }
        # Packages read their entry points and versions from files that a call does not have.
        packages = sorted(importlib.metadata.distributions(), key=lambda it: it.name)
        entry_points = importlib.metadata.EntryPoints(point for it in packages for point in it.entry_points)
        importlib.metadata.entry_points = lambda **parameters: entry_points.select(**parameters)
        versions = self.versions
        versions |= {it.name.lower(): it.version for it in packages}

        def version(name):
            try:
                return versions[name.lower()]
            except KeyError:
                raise importlib.metadata.PackageNotFoundError(name) from None

        importlib.metadata.version = version

    def _import(self, name):
        if name.partition(".")[0] in EXCLUDED or name.endswith(".__main__") or is_runner_module(name):
            return
        if ".tests" in name or ".test_" in name:
            return
        try:
            module = importlib.import_module(name)
        except BaseException as error:
            self.failed[name] = repr(error)
            return
        if hasattr(module, "__path__"):
            for submodule in pkgutil.iter_modules(module.__path__):
                self._import(f"{name}.{submodule.name}")

    def has(self, name):
        return name in self.modules

    def find_spec(self, name, path=None, target=None):
        module = self.modules.get(name)
        if module is None:
            self.missing(name, path)
            return None
        original = getattr(module, "__spec__", None)
        spec = importlib.machinery.ModuleSpec(
            name, self, origin=getattr(original, "origin", None),
            is_package=hasattr(module, "__path__"))
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.extend(module.__path__)
        return spec

    def create_module(self, spec):
        return self.modules[spec.name]

    def exec_module(self, module):
        """Does nothing: the module ran at the build."""

    def settle(self):
        """Removes from `sys.modules` all but the modules of a new interpreter and the runner's own. The build
        does this, because it touches each module."""
        for name in list(sys.modules):
            if name not in self._initial and not is_runner_module(name) and name != "__main__":
                del sys.modules[name]
        # Look here first: the build's folders still have the same modules. Built-in and frozen modules
        # need no finder, because they are loaded.
        sys.meta_path[:] = [self, self._files]
        # Load the skill's modules only through the host, which records their digests in the audit log.
        sys.path_hooks[:] = [modules.Finder.of]
        # The cached finders know only the build's folders, and their times.
        for finder in sys.path_importer_cache.values():
            if hasattr(finder, "invalidate_caches"):
                finder.invalidate_caches()
        sys.path_importer_cache.clear()

    def enter(self, main):
        """Starts a script. Returns the modules that it must not see."""
        hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name not in self._initial}
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
            # If the call may open no more files, use the library modules.
            return None
        # A library module takes precedence over a folder without `__init__.py`.
        is_folder = spec is not None and spec.loader is None
        return None if is_folder and self._is_baked(name) else spec

    invalidate_caches = staticmethod(importlib.machinery.PathFinder.invalidate_caches)


class Resources(TraversableResources):
    """The data files of one package, for `importlib.resources`."""

    def __init__(self, folder):
        self._folder = folder

    def files(self):
        return self._folder


def _data_files(runner_folder):
    """Returns an archive of the packages' data files."""
    library = os.path.dirname(os.path.dirname(zipfile.__file__))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for folder in sys.path:
            if os.path.abspath(folder or ".") in (runner_folder, library) or not os.path.isdir(folder):
                continue
            for package in sorted(os.listdir(folder)):
                if package in sys.modules:
                    _add(archive, f"{folder}/{package}")
    return zipfile.ZipFile(io.BytesIO(data.getvalue()))


def _add(archive, folder):
    for subfolder, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = f"{subfolder}/{name}"
            if not name.endswith((".py", ".pyc", ".pyi", ".so", ".c")) and os.path.getsize(path) <= MAX_DATA_BYTES:
                with open(path, "rb") as file:
                    # `write` would add the time of the file.
                    archive.writestr(zipfile.ZipInfo(path.lstrip("/")), file.read())
