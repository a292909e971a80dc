"""Finds the imports in functions, missing modules, and modules that hide one another.

A call cannot load modules from files, so the kit runs the imports in functions when the component
is built: `skillhost_imports.py` reads them from the module that this script writes. The script runs
no code of the project.

Arguments: the file to write, the folder to search, and the folder of a project's libraries if it
has any.
"""

import ast
import codecs
import difflib
import encodings
import importlib.metadata
import os
import pathlib
import sys

out, root, *library_folders = sys.argv[1:]
# Functions that take the name of an encoding.
ENCODING_FUNCTIONS = {
    "bytes", "decode", "encode", "getdecoder", "getencoder", "getreader", "getwriter", "lookup",
    "open", "read_text", "str", "TextIOWrapper", "write_text",
}
# Modules that `componentize-py` and the kit add to the project's modules.
KIT = {
    "componentize_py_async_support", "componentize_py_runtime", "componentize_py_types",
    "poll_loop", "skillhost_app", "skillhost_http", "skillhost_imports", "skillhost_kit", "skillhost_late",
    "skillhost_late_libraries", "tool", "wit_world",
}
# The folders of a project without modules.
EXCLUDED_FOLDERS = {"build", "cases", "dist", "skills", "wit", "__pycache__"}
NO_NETWORK = "a tool has no sockets: send HTTP requests with `skillhost_http`, or take the data as an argument"
NO_PROCESS = "a tool starts no processes: do the work in Python"
NO_TERMINAL = "a tool has neither a terminal nor a screen"
# Large modules that are useless in a sandbox without network, processes and terminals, and what to
# do instead. A call that needs one fails in any case.
USELESS = {
    "asyncio": "a tool has no event loop: call functions directly",
    "ctypes": "a tool loads no native code: choose a library of pure Python",
    "ftplib": NO_NETWORK,
    "http.client": NO_NETWORK,
    "http.server": NO_NETWORK,
    "multiprocessing": NO_PROCESS,
    "pdb": NO_TERMINAL,
    "smtplib": NO_NETWORK,
    "socket": NO_NETWORK,
    "ssl": NO_NETWORK,
    "subprocess": NO_PROCESS,
    "tkinter": NO_TERMINAL,
    "unittest": "`skillhost test` runs the cases in `cases`",
    "urllib.request": NO_NETWORK,
    "webbrowser": NO_TERMINAL,
}
# Modules of the compiler's Python that the machine's Python may not have.
NEWER = {"annotationlib", "compression", "tomllib"}
# The maximum number of files to read. Guards against: a library that keeps a build busy.
MAX_FILES = 5000
# The maximum number of warnings.
MAX_WARNINGS = 20


class LateImports(ast.NodeVisitor):
    """Collects the imports in functions of a module, as pairs of a module and names in it."""

    def __init__(self, package):
        self.package = package
        self.depth = 0
        self.try_depth = 0
        self.imports = set()
        # The line of each import outside a `try`.
        self.lines = {}

    def _function(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_Try(self, node):
        self.try_depth += 1
        self.generic_visit(node)
        self.try_depth -= 1

    def _record_line(self, module, node):
        if not self.try_depth:
            self.lines.setdefault(module, node.lineno)

    def visit_Import(self, node):
        if self.depth:
            self.imports |= {(alias.name, ()) for alias in node.names}
            for alias in node.names:
                self._record_line(alias.name, node)

    def visit_ImportFrom(self, node):
        package = self.package.split(".") if self.package else []
        if not self.depth or node.level > len(package):
            return
        parents = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join(parents + ([node.module] if node.module else []))
        names = tuple(sorted(alias.name for alias in node.names if alias.name != "*"))
        self.imports.add((base, names))
        self._record_line(base, node)
        for name in names:
            if f"{base}.{name}" in USELESS:
                self._record_line(f"{base}.{name}", node)

    def visit_Attribute(self, node):
        # The interpreter imports `_strptime` at the first call.
        if node.attr == "strptime":
            self.imports.add(("_strptime", ()))
        self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name in ENCODING_FUNCTIONS:
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
        self.imports.add((f"encodings.{module}", ()))


def modules(folder):
    """Yields the name, package and file of each module in a folder."""
    files = []
    for place, folders, names in os.walk(folder):
        # A virtual environment of the author is not part of the tool.
        folders[:] = [
            name for name in sorted(folders)
            if name.isidentifier() and not os.path.exists(f"{place}/{name}/pyvenv.cfg")
            and not (place == folder and name in EXCLUDED_FOLDERS)
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
    """Returns the top-level modules and packages of a folder, with their paths."""
    paths = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        if path.suffix in (".py", ".so", ".pyd"):
            paths[path.name.split(".")[0]] = path.name
        elif path.is_dir() and any(path.glob("*.py")):
            paths[path.name] = path.name + "/"
    return paths


def owner(folder, name):
    """Returns the name of the library that contains a module."""
    for library in importlib.metadata.distributions(path=[folder]):
        if any(file.parts[0].split(".")[0] == name for file in library.files or []):
            return library.metadata["Name"]
    return name


def missing_modules(trees):
    """Yields a message for each missing module that `tool`, or a module it needs, imports."""
    known = set(sys.stdlib_module_names) | KIT | NEWER
    for folder in [root, *library_folders]:
        # A package may have no Python file at its top level.
        known |= {entry.name.split(".")[0] for entry in pathlib.Path(folder).iterdir()}
    waiting, seen = ["tool"], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in trees:
            continue
        seen.add(name)
        path, tree = trees[name]
        # An import in a `try`, an `if` or a function may never run.
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
                    yield f"{path}:{node.lineno}: {missing_message(top, known)}"


def missing_message(module, known):
    """Returns the message about a missing module, with advice."""
    pinned = sorted(
        library.metadata["Name"] for folder in library_folders
        for library in importlib.metadata.distributions(path=[folder])
    )
    similar = difflib.get_close_matches(module, sorted(known), 1)
    suggestion = f"; did you mean `{similar[0]}`?" if similar else "."
    return (f"`{module}` is neither in the project, nor in Python, nor pinned{suggestion} "
            f"`skillhost add-library NAME` pins a library; pinned are {', '.join(pinned) or 'none'}")


def useless_imports(visitor, path):
    """Yields a message for each import, in a function, of a module in `USELESS`.

    Imports in a `try` get no message, because the author handles their failure.
    """
    for module, line in sorted(visitor.lines.items(), key=lambda it: it[1]):
        advice = USELESS.get(module) or USELESS.get(module.split(".")[0])
        if advice:
            yield f"{path}:{line}: warning: a call cannot import `{module}`: {advice}"


def hidden_modules(libraries):
    """Yields a message for each library module that another module of the same name hides."""
    own = top_level(root)
    for name in sorted(top_level(libraries)):
        if name in KIT:
            yield (f"the library `{owner(libraries, name)}` has a module `{name}`, and so has the "
                   "kit: a tool can import only one of them; choose another library")
        elif name in own:
            yield (f"{own[name]}:1: the library `{owner(libraries, name)}` has a module `{name}` "
                   "too, which this one hides; rename this one")


late, locations, trees, warnings = {}, {}, {}, []
for name, package, path in modules(root):
    visitor = LateImports(package)
    try:
        tree = ast.parse(path.read_bytes())
        visitor.visit(tree)
    except (SyntaxError, ValueError, RecursionError):
        # Python reports the error when the module is imported.
        continue
    trees[name] = (path.relative_to(root), tree)
    # The author cannot change libraries. When this script reads libraries, the folder has no
    # `tool.py`.
    if (pathlib.Path(root) / "tool.py").is_file():
        warnings += useless_imports(visitor, path.relative_to(root))
    imports = [(module, names) for module, names in visitor.imports if module not in USELESS]
    if imports:
        late[name] = sorted(imports)
        file = path.relative_to(root)
        locations |= {(name, module): f"{file}:{line}" for module, line in visitor.lines.items()}
pathlib.Path(out).write_text(f"BY_MODULE = {late!r}\nPLACES = {locations!r}\n")
for warning in warnings[:MAX_WARNINGS]:
    print(warning, file=sys.stderr)
errors = [message for libraries in library_folders for message in hidden_modules(libraries)]
errors += missing_modules(trees)
if errors:
    sys.exit("\n".join(errors))
