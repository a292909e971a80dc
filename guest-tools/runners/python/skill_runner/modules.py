"""Imports modules of the skill. The host loads each module from the skill on disk, and records its digest in
the audit log. Files that the call wrote, inputs and the script's own, are data: a script can read them, but
imports ignore them. An import fails if the call changed the file that it would load."""

import _io
import importlib.machinery
import importlib.util
import io
import os
import sys

from componentize_py_types import Err
from wit_world.imports import scripts as host

from . import unsupported


class Skill:
    """The skill of this call."""

    # The path of its folder. Empty while the component is built.
    mount = ""


# The result of `_load` for a folder.
FOLDER = object()
# The host's refusals for a path at which the skill has no module.
ABSENT = (host.Refusal.NOT_FOUND, host.Refusal.OUTSIDE)
# The reasons for the host's other refusals.
UNREADABLE = {
    "NOT_A_FILE": "is not a file",
    "HARD_LINKED": "has several hard links",
    "OTHER_MOUNT": "lies on another mount",
    "PERMISSION_DENIED": "permission denied",
    "SYMLINK_LOOP": "too many levels of symbolic links",
    "NAME_TOO_LONG": "name too long",
    "TOO_LARGE": "larger than the 4 MiB that a script may have",
}
CHANGED = "this call changed or removed it; only the skill's files on disk run as code"


def _relative(path):
    """Returns a path relative to the skill's folder, or None if it is outside."""
    if not path.startswith("/"):
        path = os.path.join(os.getcwd(), path)
    relative = path.removeprefix(Skill.mount + "/")
    return None if relative == path else relative


def _load(path, name=None):
    """Loads a file of the skill from the disk. Returns its bytes, `FOLDER` for a folder, or None. A path that ends
    with a slash can only name a folder, so the host reads no file. Raises `ImportError` if the host refuses the file,
    for example because the call changed it."""
    relative = _relative(path)
    if relative is None:
        return None
    try:
        return bytes(host.load_module(relative))
    except Err as error:
        refusal = error.value
    if refusal in ABSENT:
        return None
    if refusal == host.Refusal.NOT_A_FILE:
        return FOLDER
    reason = CHANGED if refusal == host.Refusal.NOT_GRANTED else UNREADABLE.get(refusal.name, "cannot be read")
    path, relative = path.removesuffix("/"), relative.removesuffix("/")
    raise ImportError(unsupported.NOTES.add(f"{relative}: not run as code: {reason}"), name=name, path=path)


def source(path, name=None):
    """Returns the bytes of a module, or None if the skill has no such file."""
    if not Skill.mount:
        with open(path, "rb") as file:
            return file.read()
    loaded = _load(path, name)
    return None if loaded is FOLDER else loaded


def find_written(name, folders):
    """Returns the file or folder that an import of `name` ignored because the call wrote it, or None."""
    for folder in folders:
        base = os.path.join(folder, name.rpartition(".")[2])
        for path in (base + "/__init__.py", base + ".py", base):
            if os.path.exists(path):
                return path
    return None


def refusal(path):
    """Returns the message for a file that does not run because the call wrote it."""
    return (f"{path.removeprefix(Skill.mount + '/')}: not run as code: this call wrote the file, and only the "
            "skill's files on disk run as code; a script can read it")


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the skill."""

    # The bytes of the module, if the finder has loaded them.
    loaded = None

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        code = source(path, fullname) if self.loaded is None else self.loaded
        if code is None:
            raise ImportError(refusal(path), name=fullname, path=path)
        return self.source_to_code(code, path)

    def get_data(self, path):
        """Reads a data file of a package."""
        with open(path, "rb") as file:
            return file.read()


class Finder(importlib.machinery.FileFinder):
    """Finds modules in a folder of the skill on disk."""

    # The names in the folder when the script started. If they are None, `find_spec` asks the host for each name.
    names = None

    @classmethod
    def of(cls, path):
        """Returns the finder for a folder of the skill, or for any folder while the component is built."""
        loaders = Loader, importlib.machinery.SOURCE_SUFFIXES
        if not Skill.mount:
            return importlib.machinery.FileFinder(path, loaders)
        if path != Skill.mount and _relative(path) is None or os.path.isfile(path):
            raise ImportError("only folders of the skill have modules", path=path)
        return cls(path, loaders)

    def find_spec(self, fullname, target=None):
        """Finds a module, or a folder without `__init__.py`."""
        name = fullname.rpartition(".")[2]
        if self.names is not None and name not in self.names and name + ".py" not in self.names:
            return None
        folder = f"{self.path}/{name}"
        is_folder = _load(folder + "/", fullname) is FOLDER
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
        code = source(path, fullname)
        if code is None:
            return None
        loader = Loader(fullname, path)
        loader.loaded = code
        return importlib.util.spec_from_file_location(
            fullname, path, loader=loader, submodule_search_locations=locations)


def list_names(folders):
    """Lists the folders in which a script searches for modules, so that `find_spec` asks the host only for names
    that exist."""
    for folder in folders:
        finder = sys.path_importer_cache[folder] = Finder.of(folder)
        try:
            finder.names = set(os.listdir(folder))
        except OSError:
            # The call has reached its limit of folder entries.
            pass


def open_code(path):
    """Replaces `io.open_code`, with which the standard library opens code."""
    try:
        code = source(path)
    except ImportError as error:
        raise PermissionError(str(error)) from None
    if code is None:
        raise PermissionError(refusal(path))
    return io.BytesIO(code)


def read_compiled(loader, path):
    """Replaces `SourcelessFileLoader.get_data`, which reads compiled modules."""
    return open_code(path).read()


def replace():
    """Makes every function that loads code load only the skill's files on disk. No import reads compiled
    modules."""
    # `zipimport` and the loaders of `importlib._bootstrap_external` use `_io`.
    io.open_code = _io.open_code = open_code
    importlib.machinery.SourcelessFileLoader.get_data = read_compiled
    importlib.machinery.SourceFileLoader = Loader
    importlib._bootstrap_external._get_supported_file_loaders = lambda: [
        (Loader, importlib.machinery.SOURCE_SUFFIXES)]
