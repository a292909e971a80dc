"""Modules of the skill. Their bytes come from the host, which has them from the disk and notes them for
the audit log. What the call wrote itself, be it an input or a file that a script made, is data: a script
can read it, and no import finds it."""

import _io
import importlib.machinery
import importlib.util
import io
import os

from componentize_py_types import Err
from wit_world.imports import scripts as host


class Skill:
    """The skill of this call."""

    # The place of its folder. Empty while the component is built.
    mount = ""
    # Files that the call wrote and an import passed over, by the module's name.
    written = {}


def source(path):
    """The bytes of a module, or None if the file is not the skill's own."""
    if not Skill.mount:
        with open(path, "rb") as file:
            return file.read()
    path = os.path.join(os.getcwd(), path)
    inside = path.removeprefix(Skill.mount + "/")
    if inside == path:
        return None
    try:
        return bytes(host.load_module(inside))
    except Err:
        return None


def is_own_folder(path):
    """Whether a folder is the skill's own. The host tells it apart from one that the call made."""
    inside = path.removeprefix(Skill.mount + "/")
    if not Skill.mount or inside == path:
        return not Skill.mount
    try:
        host.load_module(inside)
    except Err as error:
        return error.value == host.Refusal.NOT_A_FILE
    return False


def refusal(path):
    """Why a file is not run."""
    return (f"{path.removeprefix(Skill.mount + '/')}: not run as code: only files that the skill has on the disk "
            "are, and this call wrote the file; a script can read it")


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the skill."""

    # The bytes, if they have been asked for.
    found = None

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        found = source(path) if self.found is None else self.found
        if found is None:
            raise ImportError(refusal(path), name=fullname, path=path)
        return self.source_to_code(found, path)

    def get_data(self, path):
        """Reads a file of a package that is no code."""
        with open(path, "rb") as file:
            return file.read()


class Finder(importlib.machinery.FileFinder):
    """Finds modules in a folder as if the files that the call wrote were not there."""

    def find_spec(self, fullname, target=None):
        """Finds a module, or a folder without `__init__.py` that the skill has on the disk."""
        spec = super().find_spec(fullname, target)
        if spec is None or spec.loader is not None:
            return spec
        folders = [folder for folder in spec.submodule_search_locations if is_own_folder(folder)]
        if folders:
            return spec
        Skill.written.setdefault(fullname, f"{self.path}/{fullname.rpartition('.')[2]}")
        return None

    def _get_spec(self, loader_class, fullname, path, smsl, target):
        """Makes the spec of a module that lies at a path. Nothing else of an import costs more than it did."""
        folder = f"{self.path}/{fullname.rpartition('.')[2]}"
        # A package that the call wrote goes before a module of the skill.
        for at in dict.fromkeys([path, folder + ".py"]):
            found = source(at)
            if found is not None:
                loader = loader_class(fullname, at)
                loader.found = found
                return importlib.util.spec_from_file_location(
                    fullname, at, loader=loader, submodule_search_locations=smsl if at == path else None)
        Skill.written[fullname] = path
        if smsl or not os.path.isdir(folder):
            return None
        # A module that the call wrote goes before a folder without `__init__.py`.
        spec = importlib.machinery.ModuleSpec(fullname, None)
        spec.submodule_search_locations = [folder]
        return spec


def open_code(path):
    """Stands in for `io.open_code`, by which the standard library opens what it runs."""
    found = source(path)
    if found is None:
        raise PermissionError(refusal(path))
    return io.BytesIO(found)


def compiled(loader, path):
    """Stands in for the method by which `SourcelessFileLoader` reads what it runs."""
    return open_code(path).read()


def replace():
    """Leads everything that loads code from a file to the skill's own files. No import reads compiled ones."""
    # `zipimport` and the loaders below `importlib.machinery` ask `_io`.
    io.open_code = _io.open_code = open_code
    importlib.machinery.SourcelessFileLoader.get_data = compiled
    importlib.machinery.SourceFileLoader = Loader
    importlib._bootstrap_external._get_supported_file_loaders = lambda: [
        (Loader, importlib.machinery.SOURCE_SUFFIXES)]
