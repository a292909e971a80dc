"""The files of a skill: its scripts, those that an import runs, and their sources."""

import os

from .source import LARGEST, Source

# Bytes of sources that are kept parsed from one script to the next. Guards against: a skill whose files take
# all memory.
MOST_KEPT = 1 << 19


def candidates(path):
    """Returns the files that a module of this path may have."""
    return f"{path}.py", f"{path}/__init__.py"


class Files:
    """The files of one skill."""

    def __init__(self, baked, mount):
        self._baked = baked
        self._mount = mount
        # The files of imports, by folder and name.
        self._found = {}
        self._names = None
        self._sources, self._kept = {}, 0

    def scripts(self, most):
        """Returns the paths of the Python files, and whether there are more."""
        found = []
        for folder, folders, names in os.walk(self._mount):
            folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
            for name in sorted(names):
                if name.endswith(".py") and name != "__init__.py":
                    if len(found) == most:
                        return found, True
                    found.append(os.path.relpath(f"{folder}/{name}", self._mount))
        return sorted(found), False

    def source(self, path):
        """Reads and parses a file, if it is not kept from another script."""
        source = self._sources.get(path)
        if source is None:
            with open(f"{self._mount}/{path}", "rb") as file:
                source = Source(path, file.read(LARGEST + 1))
            self._kept += source.size
            if self._kept > MOST_KEPT:
                self._sources, self._kept = {}, source.size
            self._sources[path] = source
        source.forget()
        return source

    def imported(self, folder, name):
        """Returns the files that an import of this name runs, in a script of a folder."""
        if (folder, name) not in self._found:
            self._found[folder, name] = self._find(folder, name)
        return self._found[folder, name]

    def _find(self, folder, name):
        parts = name.split(".")
        folders = dict.fromkeys([folder, ""])
        if name.startswith("/"):
            parts, folders = [name[1:]], [""]
        for folder in folders:
            base = f"{folder}/" if folder else ""
            top = base + parts[0]
            is_module = self._is_file(top + ".py")
            if not (is_module or self._is_folder(top)):
                continue
            # A folder without `__init__.py` comes after every module.
            if not is_module and not self._is_file(top + "/__init__.py") and self._baked.has(parts[0]):
                continue
            files = []
            for count in range(1, len(parts) + 1):
                path = base + "/".join(parts[:count])
                files += [it for it in candidates(path) if self._is_file(it)][:1]
            last = base + "/".join(parts)
            if self._is_folder(last) or any(it in files for it in candidates(last)):
                return files or [last]
        return []

    def _is_file(self, path):
        return os.path.isfile(f"{self._mount}/{path}")

    def _is_folder(self, path):
        return os.path.isdir(f"{self._mount}/{path}")

    def anywhere(self, name):
        """Returns whether the skill has a module of that name in some folder."""
        if self._names is None:
            self._names = set()
            for _, folders, names in os.walk(self._mount):
                folders[:] = [it for it in folders if it[0] != "."]
                self._names.update(folders)
                self._names.update(it[:-3] for it in names if it.endswith(".py"))
        return name.partition(".")[0] in self._names
