"""Finds the imports that functions make when they run, and what one module hides of
another. A call finds no files of modules, so that the kit imports these when the component
is built: `skillhost_imports.py` reads the module that this script writes.

Arguments: the file to write, the folder to search, and for a project the folder of its
libraries, or nothing. No code of the folder is run.
"""

import ast
import codecs
import encodings
import importlib.metadata
import os
import pathlib
import sys

out, root, *beside = sys.argv[1:]
# Calls with the name of an encoding among their arguments.
CODING = {
    "bytes", "decode", "encode", "getdecoder", "getencoder", "getreader", "getwriter", "lookup",
    "open", "read_text", "str", "TextIOWrapper", "write_text",
}
# What `componentize-py` and the kit put beside the project's modules.
KIT = {
    "componentize_py_async_support", "componentize_py_runtime", "componentize_py_types",
    "poll_loop", "skillhost_app", "skillhost_imports", "skillhost_kit", "skillhost_late",
    "skillhost_late_libraries", "tool", "wit_world",
}
# The folders of a project that hold no modules.
NO_MODULES = {"build", "cases", "dist", "skills", "wit", "__pycache__"}
# Modules that cannot do their work in a sandbox without network, processes and terminals.
# They are large, and a call that wants one fails either way.
USELESS = {
    "asyncio", "ctypes", "ftplib", "http.client", "http.server", "multiprocessing", "pdb", "smtplib",
    "socket", "ssl", "subprocess", "tkinter", "unittest", "urllib.request", "webbrowser",
}
# The most files that are read. Guards against: a library that keeps a build busy.
MAX_FILES = 5000


class Late(ast.NodeVisitor):
    """The late imports of one module: pairs of a module and names in it."""

    def __init__(self, package):
        self.package = package
        self.depth = 0
        self.found = set()

    def _function(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_Import(self, node):
        if self.depth:
            self.found |= {(alias.name, ()) for alias in node.names}

    def visit_ImportFrom(self, node):
        package = self.package.split(".") if self.package else []
        if not self.depth or node.level > len(package):
            return
        above = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join(above + ([node.module] if node.module else []))
        names = tuple(sorted(alias.name for alias in node.names if alias.name != "*"))
        self.found.add((base, names))

    def visit_Attribute(self, node):
        # The interpreter imports it at the first call.
        if node.attr == "strptime":
            self.found.add(("_strptime", ()))
        self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name in CODING:
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    self._encoding(argument.value)
        self.generic_visit(node)

    def _encoding(self, name):
        try:
            codecs.lookup(name)
        except (LookupError, ValueError):
            return
        module = encodings.normalize_encoding(name).lower()
        module = encodings.aliases.aliases.get(module, module)
        self.found.add((f"encodings.{module}", ()))


def modules(folder):
    """The modules of a folder: their names, packages and files."""
    files = []
    for place, folders, names in os.walk(folder):
        # An author's own environment is no part of the tool.
        folders[:] = [
            name for name in sorted(folders)
            if name.isidentifier() and not os.path.exists(f"{place}/{name}/pyvenv.cfg")
            and not (place == folder and name in NO_MODULES)
        ]
        files += [pathlib.Path(place, name) for name in sorted(names) if name.endswith(".py")]
        if len(files) > MAX_FILES:
            break
    for path in files[:MAX_FILES]:
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[-1] == "__init__":
            yield ".".join(parts[:-1]), ".".join(parts[:-1]), path
        else:
            yield ".".join(parts), ".".join(parts[:-1]), path


def top_level(folder):
    """The modules and packages that a folder has at its top, and where."""
    found = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        if path.suffix in (".py", ".so", ".pyd"):
            found[path.name.split(".")[0]] = path.name
        elif path.is_dir() and any(path.glob("*.py")):
            found[path.name] = path.name + "/"
    return found


def owner(folder, name):
    """The library that has a module."""
    for library in importlib.metadata.distributions(path=[folder]):
        if any(file.parts[0].split(".")[0] == name for file in library.files or []):
            return library.metadata["Name"]
    return name


def shadows(libraries):
    """Lines on modules of libraries that another module of the same name hides."""
    own = top_level(root)
    for name in sorted(top_level(libraries)):
        if name in KIT:
            yield (f"the library `{owner(libraries, name)}` has a module `{name}`, and so has the "
                   "kit: a tool could import only one of them; choose another library")
        elif name in own:
            yield (f"{own[name]}:1: the library `{owner(libraries, name)}` has a module `{name}` "
                   "too, which this one hides; rename this one")


late = {}
for name, package, path in modules(root):
    visitor = Late(package)
    try:
        visitor.visit(ast.parse(path.read_bytes()))
    except (SyntaxError, ValueError, RecursionError):
        # Python reports it where the module is imported.
        continue
    found = [(module, names) for module, names in visitor.found if module not in USELESS]
    if found:
        late[name] = sorted(found)
pathlib.Path(out).write_text(f"BY_MODULE = {late!r}\n")
hidden = [line for libraries in beside for line in shadows(libraries)]
if hidden:
    sys.exit("\n".join(hidden))
