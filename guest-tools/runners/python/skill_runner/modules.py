"""Modules of the skill. An import finds what the skill has on the disk, and the host gives its bytes and
notes them for the audit log. What the call wrote, be it an input or a file that a script made, is data: a
script can read it, and no import finds it. If the call changed what an import finds, the import fails."""

import _io
import importlib.machinery
import importlib.util
import io
import os
import sys

from componentize_py_types import Err
from wit_world.imports import scripts as host

from . import lacks


class Skill:
    """The skill of this call."""

    # The place of its folder. Empty while the component is built.
    mount = ""


# What the skill has in the place of a file.
FOLDER = object()
# Refusals of a path at which the skill has no module.
ABSENT = (host.Refusal.NOT_FOUND, host.Refusal.OUTSIDE)
# Why the host does not give a file, by its word for it.
UNREADABLE = {
    "NOT_A_FILE": "is not a file",
    "HARD_LINKED": "has several hard links",
    "OTHER_MOUNT": "lies on another mount",
    "PERMISSION_DENIED": "permission denied",
    "SYMLINK_LOOP": "too many levels of symbolic links",
    "NAME_TOO_LONG": "name too long",
    "TOO_LARGE": "larger than the 4 MiB that a script may have",
}
CHANGED = "this call changed or removed it, and only files that the skill has on the disk run"


def _inside(path):
    """Returns a path in the skill, or None if it is outside."""
    if not path.startswith("/"):
        path = os.path.join(os.getcwd(), path)
    inside = path.removeprefix(Skill.mount + "/")
    return None if inside == path else inside


def _ask(path, name=None):
    """Returns what the skill has at a path on the disk: the bytes of a file, `FOLDER`, or None. A path that ends
    in a slash leads to no file, so the host reads none. Raises `ImportError` if the host refuses what is there, for
    example because the call changed it."""
    inside = _inside(path)
    if inside is None:
        return None
    try:
        return bytes(host.load_module(inside))
    except Err as error:
        refusal = error.value
    if refusal in ABSENT:
        return None
    if refusal == host.Refusal.NOT_A_FILE:
        return FOLDER
    why = CHANGED if refusal == host.Refusal.NOT_GRANTED else UNREADABLE.get(refusal.name, "cannot be read")
    path, inside = path.removesuffix("/"), inside.removesuffix("/")
    raise ImportError(lacks.NOTES.add(f"{inside}: not run as code: {why}"), name=name, path=path)


def source(path, name=None):
    """Returns the bytes of a module, or None if the skill has no such file."""
    if not Skill.mount:
        with open(path, "rb") as file:
            return file.read()
    found = _ask(path, name)
    return None if found is FOLDER else found


def written(name, folders):
    """Returns the file or folder that the call wrote and an import of this name passed over, if any."""
    for folder in folders:
        at = os.path.join(folder, name.rpartition(".")[2])
        for path in (at + "/__init__.py", at + ".py", at):
            if os.path.exists(path):
                return path
    return None


def refusal(path):
    """Returns why a file that the skill does not have is not run."""
    return (f"{path.removeprefix(Skill.mount + '/')}: not run as code: only files that the skill has on the disk "
            "are, and this call wrote the file; a script can read it")


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the skill."""

    # The bytes, if they have been asked for.
    found = None

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        found = source(path, fullname) if self.found is None else self.found
        if found is None:
            raise ImportError(refusal(path), name=fullname, path=path)
        return self.source_to_code(found, path)

    def get_data(self, path):
        """Reads a file of a package that is no code."""
        with open(path, "rb") as file:
            return file.read()


class Finder(importlib.machinery.FileFinder):
    """Finds modules in a folder as the skill has it on the disk."""

    # The names in the folder when the script started. Without them, the host is asked for each name.
    names = None

    @classmethod
    def of(cls, path):
        """Returns the finder of a folder of the skill. While the component is built, that is any folder."""
        loaders = Loader, importlib.machinery.SOURCE_SUFFIXES
        if not Skill.mount:
            return importlib.machinery.FileFinder(path, loaders)
        if path != Skill.mount and _inside(path) is None or os.path.isfile(path):
            raise ImportError("only folders of the skill have modules", path=path)
        return cls(path, loaders)

    def find_spec(self, fullname, target=None):
        """Finds a module, or a folder without `__init__.py`."""
        name = fullname.rpartition(".")[2]
        if self.names is not None and name not in self.names and name + ".py" not in self.names:
            return None
        folder = f"{self.path}/{name}"
        is_folder = _ask(folder + "/", fullname) is FOLDER
        if is_folder:
            spec = self._spec(fullname, folder + "/__init__.py", [folder])
            if spec is not None:
                return spec
        spec = self._spec(fullname, folder + ".py")
        if spec is None and is_folder and os.path.isdir(folder):
            spec = importlib.machinery.ModuleSpec(fullname, None)
            spec.submodule_search_locations = [folder]
        return spec

    def _spec(self, fullname, path, locations=None):
        """Returns the spec of a module, or None if the skill does not have the file."""
        found = source(path, fullname)
        if found is None:
            return None
        loader = Loader(fullname, path)
        loader.found = found
        return importlib.util.spec_from_file_location(
            fullname, path, loader=loader, submodule_search_locations=locations)


def list_names(folders):
    """Lists the folders in which a script looks for modules. The host need not be asked for other names."""
    for folder in folders:
        finder = sys.path_importer_cache[folder] = Finder.of(folder)
        try:
            finder.names = set(os.listdir(folder))
        except OSError:
            # The call may read no more entries.
            pass


def open_code(path):
    """Stands in for `io.open_code`, by which the standard library opens what it runs."""
    try:
        found = source(path)
    except ImportError as error:
        raise PermissionError(str(error)) from None
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
