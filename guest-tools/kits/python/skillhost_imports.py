"""The modules that a call can import.

A call finds no files of modules: it has those that were imported when the component was built.
So `bake` then imports what functions import when they run, and the encodings that they name;
`skillhost build` finds both in the source, and writes them to `skillhost_late`.
"""

import sys

# Late imports that failed, and why.
FAILED = {}
# What a call needs although no source names it: libraries encode names of hosts.
ALWAYS = ("encodings.idna", "encodings.punycode")


def bake():
    """Imports what the functions of the loaded modules import."""
    by_module, places, failed = {}, {}, []
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
    # A module that is imported may have late imports of its own.
    while waiting := [name for name in by_module if name in sys.modules]:
        for name in waiting:
            for module, names in by_module.pop(name):
                try:
                    __import__(module, fromlist=names)
                except (Exception, SystemExit) as error:
                    FAILED[module] = f"{type(error).__name__}: {error}"
                    if place := places.get((name, module)):
                        failed.append(f"{place}: no call can import `{module}`: {error}\n")
    if failed:
        _report(failed)


def _report(lines):
    """Tells `skillhost build`, which prints what lies in this file beside its own."""
    own = sys.modules["skillhost_late"].__file__
    try:
        with open(own.removesuffix("skillhost_late.py") + "failed.txt", "w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError:
        pass  # A call says it, too.


def hint(error):
    """What to do about a module, an encoding or a library's file that a call lacks, or an empty text."""
    if isinstance(error, ImportError) and error.name:
        module = ".".join(filter(None, (error.name, error.name_from)))
    elif isinstance(error, LookupError) and str(error).startswith("unknown encoding: "):
        name = str(error).removeprefix("unknown encoding: ").strip()
        module = "encodings." + name.lower().replace("-", "_").replace(" ", "_")
    elif isinstance(error, FileNotFoundError) and _is_of_library(error.filename):
        return " (a call finds no files of libraries: let the library read it in code at the top of tool.py, which runs when the component is built)"
    else:
        return ""
    if why := FAILED.get(module):
        return f" (it could not be imported when the component was built: {why})"
    return f" (a call finds only what was imported before: put `import {module}` at the top of tool.py)"


def _is_of_library(path):
    """Whether a path lies where modules were when the component was built."""
    return isinstance(path, str) and any(path.startswith(folder + "/") for folder in sys.path if folder)
