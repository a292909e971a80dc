"""Finds the imports that functions make when they run, and what one module hides of
another. A call finds no files of modules, so that the kit imports these when the component
is built: `skillhost_imports.py` reads the module that this script writes.

Arguments: the file to write, the folder to search, and for a project the folder of its
libraries, or nothing. No code of the folder is run.
"""

import ast
import codecs
import difflib
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
# Modules of the compiler's Python that an older one of the machine does not know.
NEWER = {"annotationlib", "compression", "tomllib"}
# The most files that are read. Guards against: a library that keeps a build busy.
MAX_FILES = 5000


class Late(ast.NodeVisitor):
    """The late imports of one module: pairs of a module and names in it."""

    def __init__(self, package):
        self.package = package
        self.depth = 0
        self.guarded = 0
        self.found = set()
        # The lines of imports that nothing catches.
        self.lines = {}

    def _function(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_Try(self, node):
        self.guarded += 1
        self.generic_visit(node)
        self.guarded -= 1

    def _at(self, module, node):
        if not self.guarded:
            self.lines.setdefault(module, node.lineno)

    def visit_Import(self, node):
        if self.depth:
            self.found |= {(alias.name, ()) for alias in node.names}
            for alias in node.names:
                self._at(alias.name, node)

    def visit_ImportFrom(self, node):
        package = self.package.split(".") if self.package else []
        if not self.depth or node.level > len(package):
            return
        above = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join(above + ([node.module] if node.module else []))
        names = tuple(sorted(alias.name for alias in node.names if alias.name != "*"))
        self.found.add((base, names))
        self._at(base, node)

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


def missing(trees):
    """Lines on modules that `tool`, or what it imports of the project, imports and nobody has."""
    known = set(sys.stdlib_module_names) | KIT | NEWER
    for folder in [root, *beside]:
        # A package may have no Python file at its top.
        known |= {entry.name.split(".")[0] for entry in pathlib.Path(folder).iterdir()}
    waiting, seen = ["tool"], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in trees:
            continue
        seen.add(name)
        path, tree = trees[name]
        # An import in a `try`, an `if` or a function may be one that never runs.
        for node in tree.body:
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                wanted = [node.module]
            else:
                continue
            waiting += wanted
            for top in (module.split(".")[0] for module in wanted):
                if top not in known:
                    yield f"{path}:{node.lineno}: {absent(top, known)}"


def absent(module, known):
    """Says that nobody has a module, and what to do."""
    pinned = sorted(
        library.metadata["Name"] for folder in beside
        for library in importlib.metadata.distributions(path=[folder])
    )
    near = difflib.get_close_matches(module, sorted(known), 1)
    meant = f"; did you mean `{near[0]}`?" if near else "."
    return (f"`{module}` is neither in the project, nor in Python, nor pinned{meant} "
            f"`skillhost add-library NAME` pins a library; pinned are {', '.join(pinned) or 'none'}")


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


late, places, trees = {}, {}, {}
for name, package, path in modules(root):
    visitor = Late(package)
    try:
        tree = ast.parse(path.read_bytes())
        visitor.visit(tree)
    except (SyntaxError, ValueError, RecursionError):
        # Python reports it where the module is imported.
        continue
    trees[name] = (path.relative_to(root), tree)
    found = [(module, names) for module, names in visitor.found if module not in USELESS]
    if found:
        late[name] = sorted(found)
        place = path.relative_to(root)
        places |= {(name, module): f"{place}:{line}" for module, line in visitor.lines.items()}
pathlib.Path(out).write_text(f"BY_MODULE = {late!r}\nPLACES = {places!r}\n")
wrong = [line for libraries in beside for line in shadows(libraries)]
wrong += missing(trees)
if wrong:
    sys.exit("\n".join(wrong))
