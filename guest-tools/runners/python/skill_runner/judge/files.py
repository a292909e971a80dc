"""The files of a skill: its scripts, the files that an import runs, and their sources."""

import os

from .source import MAX_SOURCE_BYTES, Source

# The maximum number of bytes of sources to keep parsed from one script to the next. Guards against: a skill
# whose parsed files fill the memory.
MAX_KEPT_BYTES = 1 << 19


def candidates(path):
    """Returns the paths at which a module may have its file."""
    return f"{path}.py", f"{path}/__init__.py"


class Files:
    """The files of one skill."""

    def __init__(self, baked, mount):
        self._baked = baked
        self._mount = mount
        # The files of imports, by folder and name.
        self._imports = {}
        self._module_names = None
        self._sources, self._kept_bytes = {}, 0

    def scripts(self, limit):
        """Returns the paths of at most `limit` Python files, and whether there are more."""
        scripts = []
        for folder, folders, names in os.walk(self._mount):
            folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
            for name in sorted(names):
                if name.endswith(".py") and name != "__init__.py":
                    if len(scripts) == limit:
                        return scripts, True
                    scripts.append(os.path.relpath(f"{folder}/{name}", self._mount))
        return sorted(scripts), False

    def source(self, path):
        """Returns a parsed file. Reads it, unless it is kept from another script."""
        source = self._sources.get(path)
        if source is None:
            with open(f"{self._mount}/{path}", "rb") as file:
                source = Source(path, file.read(MAX_SOURCE_BYTES + 1))
            self._kept_bytes += source.size
            if self._kept_bytes > MAX_KEPT_BYTES:
                self._sources, self._kept_bytes = {}, source.size
            self._sources[path] = source
        source.reset()
        return source

    def imported(self, folder, name):
        """Returns the files that an import of `name` runs, in a script of `folder`."""
        if (folder, name) not in self._imports:
            self._imports[folder, name] = self._find(folder, name)
        return self._imports[folder, name]

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
            # A library module takes precedence over a folder without `__init__.py`.
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

    def has_anywhere(self, name):
        """Returns whether any folder of the skill has a module of this name."""
        if self._module_names is None:
            self._module_names = set()
            for _, folders, names in os.walk(self._mount):
                folders[:] = [it for it in folders if it[0] != "."]
                self._module_names.update(folders)
                self._module_names.update(it[:-3] for it in names if it.endswith(".py"))
        return name.partition(".")[0] in self._module_names
