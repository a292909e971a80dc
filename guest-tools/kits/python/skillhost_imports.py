"""Imports modules when the component is built.

A call has no module files, only the modules that the build imported. So `bake` also imports the
modules that functions import when they run, and the encodings that they name. `skillhost build`
finds both in the source and writes them to `skillhost_late`.
"""

import sys

# The errors of late imports that failed, by module.
FAILED = {}
# What a call needs although no source names it: libraries encode names of hosts.
ALWAYS = ("encodings.idna", "encodings.punycode")


def bake():
    """Imports the modules that the functions of the loaded modules import."""
    by_module, places, messages = {}, {}, []
    for module in ALWAYS:
        __import__(module)
    for source in ("skillhost_late", "skillhost_late_libraries"):
        try:
            late = __import__(source)
        except ModuleNotFoundError:
            continue
        by_module |= late.BY_MODULE
        if source == "skillhost_late":
            places = getattr(late, "PLACES", {})
    # An imported module may have late imports, too.
    while waiting := [name for name in by_module if name in sys.modules]:
        for name in waiting:
            for module, names in by_module.pop(name):
                try:
                    __import__(module, fromlist=names)
                except (Exception, SystemExit) as error:
                    FAILED[module] = f"{type(error).__name__}: {error}"
                    if place := places.get((name, module)):
                        messages.append(f"{place}: no call can import `{module}`: {error}\n")
    if messages:
        _report(messages)


def _report(lines):
    """Writes a file next to `skillhost_late`, which `skillhost build` prints."""
    late_file = sys.modules["skillhost_late"].__file__
    try:
        with open(late_file.removesuffix("skillhost_late.py") + "failed.txt", "w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError:
        pass  # The failure of a call reports it, too.


def hint(error):
    """Returns advice for an error, or an empty text: for a missing module, encoding or file of a library."""
    if isinstance(error, ImportError) and error.name:
        module = ".".join(filter(None, (error.name, error.name_from)))
    elif isinstance(error, LookupError) and str(error).startswith("unknown encoding: "):
        name = str(error).removeprefix("unknown encoding: ").strip()
        module = "encodings." + name.lower().replace("-", "_").replace(" ", "_")
    elif isinstance(error, FileNotFoundError) and _is_of_library(error.filename):
        return " (a call finds no files of libraries: let the library read it in code at the top of tool.py, which runs when the component is built)"
    else:
        return ""
    if cause := FAILED.get(module):
        return f" (it could not be imported when the component was built: {cause})"
    return f" (a call finds only what was imported before: put `import {module}` at the top of tool.py)"


def _is_of_library(path):
    """Returns whether a path is in a folder from which the build imported modules."""
    return isinstance(path, str) and any(path.startswith(folder + "/") for folder in sys.path if folder)
