"""The verdict on a script that has not run, by Python's own parser: what it imports and calls, in
the order in which a run would come to it. What a run surely comes to decides; what it may come to
(behind a condition, in a function that is called somewhere) leaves the verdict open."""

import ast
import io
import keyword
import os
import sys
import tokenize

from . import lacks

WILL_RUN, WILL_NOT, OPEN = "will run", "will not", "cannot be told"

PYTHON = "Python %d.%d" % sys.version_info[:2]

# The largest file that is read, and the findings that are told of a script. Guard against: a
# script that takes the parser all memory, and one whose verdict fills the model's.
LARGEST = 4 << 20
MOST_FINDINGS = 5
# Levels of statements and calls that are followed. Guards against: a script that takes the stack.
DEEPEST = 60
# Brackets within each other, and levels of a syntax tree, that the parser gets. Guards against: a
# script that takes the parser's stack, which would end the verdicts on all scripts.
MOST_BRACKETS = 60
MOST_LEVELS = 400

# What a handler names, by what it then catches.
ANY = {"Exception", "BaseException"}
CATCHERS = {
    "import": ANY | {"ImportError", "ModuleNotFoundError"},
    "name": ANY | {"AttributeError", "ImportError"},
    lacks.PROCESS: ANY | {"OSError", "FileNotFoundError", "IOError", "EnvironmentError"},
    lacks.NETWORK: ANY | {"OSError", "IOError", "URLError", "ConnectionError", "error"},
    lacks.THREAD: ANY | {"RuntimeError"},
    lacks.SIGNAL: ANY | {"AttributeError"},
}
EXITS = {"sys.exit", "exit", "quit", "os._exit", "SystemExit"}
DYNAMIC = {
    "importlib.import_module", "__import__", "exec", "runpy.run_path", "runpy.run_module",
    "importlib.util.spec_from_file_location", "importlib.machinery.SourceFileLoader",
}


def is_too_deep(text):
    """Whether a source takes more of the parser's stack than it may. Counts the levels of the syntax
    tree from above: each operator of an expression may make one, and so may each `elif` of a statement."""
    # The operators of each bracket that is open, and the `elif`s of each block that is open.
    operators, branches = [0], [0]
    try:
        for token in tokenize.tokenize(io.BytesIO(text).readline):
            match token.type, token.string:
                case tokenize.NEWLINE, _:
                    operators = [0]
                case tokenize.INDENT, _:
                    branches.append(1)
                case tokenize.DEDENT, _:
                    branches.pop()
                case tokenize.OP, "(" | "[" | "{":
                    operators[-1] += 1
                    operators.append(0)
                case tokenize.OP, ")" | "]" | "}":
                    operators.pop()
                case tokenize.OP, "," | ";":
                    operators[-1] = 0
                case tokenize.NAME, "elif":
                    branches[-1] += 1
                case tokenize.NAME, "if" if operators == [0]:
                    branches[-1] = branches[-1] and 1
                case tokenize.OP, _:
                    operators[-1] += 1
                case tokenize.NAME, name if keyword.iskeyword(name):
                    operators[-1] += 1
            if len(operators) > MOST_BRACKETS + 1 or sum(operators) + sum(branches) > MOST_LEVELS:
                return True
    except (SyntaxError, IndexError, tokenize.TokenError):
        # The parser finds it again, and says where.
        pass
    return False


class Finding:
    """Something that a script needs and the sandbox does not have, or that nobody can tell."""

    def __init__(self, file, line, what, why, certain):
        self.file, self.line, self.what, self.why, self.certain = file, line, what, why, certain


class Source:
    """A file of the skill that has been parsed."""

    def __init__(self, path, tree, is_main):
        self.path = path
        self.tree = tree
        self.is_main = is_main
        # Names of the file that stand for modules and what is in them.
        self.aliases = {}
        self.functions = {}
        self.visited = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    if name.asname:
                        self.aliases[name.asname] = name.name
                    else:
                        top = name.name.partition(".")[0]
                        self.aliases[top] = top
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for name in node.names:
                    self.aliases[name.asname or name.name] = f"{node.module}.{name.name}"
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions.setdefault(node.name, []).append(node)
        self.top = {
            node.name: node for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }

    def dotted(self, node):
        """The full name that an expression stands for, if it is a name."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        root = self.aliases.get(node.id, node.id)
        return ".".join([root, *reversed(parts)])


class Way:
    """How a run comes to a statement: surely or not, and what would catch an exception there."""

    def __init__(self, certain, handlers=(), depth=0):
        self.certain, self.handlers, self.depth = certain, handlers, depth

    def maybe(self):
        return Way(False, self.handlers, self.depth)

    def deeper(self):
        return Way(self.certain, self.handlers, self.depth + 1)


class Judge:
    """Judges the scripts of one skill."""

    def __init__(self, baked, mount):
        self.baked = baked
        self.mount = mount

    def scripts(self, most):
        """The paths of its Python files, and whether there are more."""
        found = []
        for folder, folders, names in os.walk(self.mount):
            folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
            for name in sorted(names):
                if name.endswith(".py") and name != "__init__.py":
                    if len(found) == most:
                        return found, True
                    found.append(os.path.relpath(f"{folder}/{name}", self.mount))
        return sorted(found), False

    def judge(self, script):
        """The record of one script."""
        self.findings = []
        self.sources = {}
        self.mentioned = set()
        self.script = script
        self.folder = os.path.dirname(script)
        # Whether the script looks for modules in other folders, too.
        self.elsewhere = False
        docstring = ""
        try:
            source = self._source(script)
            docstring = (ast.get_docstring(source.tree) or "").strip().partition("\n")[0][:200]
            self._file(source, Way(True))
            self._functions()
        except SyntaxError as error:
            self._find(script, error.lineno or 1, PYTHON, error.msg, True)
        except (OSError, ValueError) as error:
            self._find(script, None, "unreadable", str(error), True)
        except (MemoryError, RecursionError):
            self._find(script, None, "nested too deeply to be judged", "", False)
        except Exception as error:
            # A script that nobody can judge, such as one in an encoding that is none, ends no other verdict.
            self._find(script, None, "cannot be judged", f"{type(error).__name__}: {error}", False)
        findings = sorted(self.findings, key=lambda found: not found.certain)
        certain = bool(findings) and findings[0].certain
        verdict = WILL_NOT if certain else OPEN if findings else WILL_RUN
        findings = [found for found in findings if found.certain or not certain][:MOST_FINDINGS]
        return {
            "script": script,
            "description": docstring,
            "verdict": verdict,
            "reasons": [
                {"path": found.file, "line": found.line, "needs": found.what, "instead": found.why}
                for found in findings
            ],
        }

    def _find(self, path, line, what, why, certain):
        for found in self.findings:
            if (found.file, found.what) == (path, what):
                found.certain = found.certain or certain
                return
        if len(self.findings) < 100:
            self.findings.append(Finding(path, line, what, why, certain))

    def _source(self, path):
        if path not in self.sources:
            with open(f"{self.mount}/{path}", "rb") as file:
                text = file.read(LARGEST + 1)
            if len(text) > LARGEST:
                raise ValueError(f"larger than {LARGEST} bytes")
            if is_too_deep(text):
                raise RecursionError
            source = self.sources[path] = Source(path, ast.parse(text), path == self.script)
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Name):
                    self.mentioned.add(node.id)
                elif isinstance(node, ast.Attribute):
                    self.mentioned.add(node.attr)
                    if node.attr == "path" and isinstance(node.value, ast.Name) and node.value.id == "sys":
                        self.elsewhere = True
                elif isinstance(node, ast.alias):
                    self.mentioned.add(node.name)
        return self.sources[path]

    def _file(self, source, way):
        if "" not in source.visited:
            source.visited.add("")
            self._block(source, source.tree.body, way)

    def _functions(self):
        """Functions that something names, and no sure call has come to."""
        again = True
        while again:
            again = False
            for source in list(self.sources.values()):
                for name, nodes in source.functions.items():
                    if name in source.visited or not (name in self.mentioned or name[:2] == "__"):
                        continue
                    source.visited.add(name)
                    again = True
                    for node in nodes:
                        self._block(source, node.body, Way(False))

    # Statements. A block returns whether a run surely comes to its end.

    def _block(self, source, statements, way):
        if way.depth > DEEPEST:
            return False
        way = way.deeper()
        for statement in statements:
            if not self._statement(source, statement, way):
                way = way.maybe()
        return way.certain

    def _statement(self, source, node, way):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for expression in [*node.decorator_list, *node.args.defaults]:
                    self._expression(source, expression, way)
            case ast.ClassDef():
                for expression in [*node.decorator_list, *node.bases]:
                    self._expression(source, expression, way)
                return self._block(source, node.body, way)
            case ast.Import():
                for name in node.names:
                    self._module(source, node, name.name, way)
            case ast.ImportFrom():
                self._import_from(source, node, way)
            case ast.If():
                return self._if(source, node, way)
            case ast.Try() | ast.TryStar():
                return self._try(source, node, way)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(source, item.context_expr, way)
                return self._block(source, node.body, way)
            case ast.For() | ast.AsyncFor():
                self._expression(source, node.iter, way)
                self._block(source, node.body, way.maybe())
                self._block(source, node.orelse, way.maybe())
                return not _may_leave(source, node.body)
            case ast.While():
                self._expression(source, node.test, way)
                endless = isinstance(node.test, ast.Constant) and node.test.value
                self._block(source, node.body, way if endless else way.maybe())
                return not (endless or _may_leave(source, node.body))
            case ast.Match():
                self._expression(source, node.subject, way)
                for case in node.cases:
                    self._block(source, case.body, way.maybe())
                return not any(_may_leave(source, case.body) for case in node.cases)
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                for child in ast.iter_child_nodes(node):
                    self._expression(source, child, way)
                return False
            case _:
                leaves = False
                for child in ast.iter_child_nodes(node):
                    self._expression(source, child, way)
                    leaves = leaves or _is_exit(source, child)
                return not leaves
        return True

    def _if(self, source, node, way):
        self._expression(source, node.test, way)
        known = _known(source, node.test)
        if known is None:
            self._block(source, node.body, way.maybe())
            self._block(source, node.orelse, way.maybe())
            return not (_may_leave(source, node.body) or _may_leave(source, node.orelse))
        return self._block(source, node.body if known else node.orelse, way)

    def _try(self, source, node, way):
        inner = Way(way.certain, (node.handlers, *way.handlers), way.depth)
        before = len(self.findings)
        reached = self._block(source, node.body, inner)
        imports = all(isinstance(it, (ast.Import, ast.ImportFrom)) for it in node.body)
        if imports and len(self.findings) == before and reached == way.certain:
            # What it imports is there, so no handler runs.
            self._block(source, [*node.orelse, *node.finalbody], way)
            return reached
        for handler in node.handlers:
            self._block(source, handler.body, way.maybe())
        reached = self._block(source, node.orelse, way if reached else way.maybe()) and reached
        self._block(source, node.finalbody, way)
        return reached and not any(_may_leave(source, handler.body) for handler in node.handlers)

    # Imports.

    def _import_from(self, source, node, way):
        module = node.module or ""
        if node.level:
            package = os.path.dirname(source.path)
            if source.path == self.script:
                self._missing(source, node, "." * node.level + module, "a script that is run by its path is in no package", way)
                return
            for _ in range(node.level - 1):
                package = os.path.dirname(package)
            base = f"{package}/" if package else ""
            names = [module] if module else [name.name for name in node.names]
            for name in names:
                for path in _candidates(base + name.replace(".", "/")):
                    if os.path.isfile(f"{self.mount}/{path}"):
                        self._own(path, way)
                        break
            return
        if not self._module(source, node, module, way):
            return
        for name in node.names:
            full = f"{module}.{name.name}"
            if self._own_files(full):
                self._module(source, node, full, way)
            elif self.baked.has(module) and not self._own_files(module):
                self._name(source, node, module, name.name, way)

    def _module(self, source, node, name, way):
        """Follows the import of a module. Returns whether it is there."""
        if module := self._own_files(name):
            for path in module:
                self._own(path, way)
            return True
        if self.baked.has(name) or name in sys.builtin_module_names:
            return True
        if self.elsewhere and self._anywhere(name):
            return True
        self._missing(source, node, name, lacks.MODULES.get(name.partition(".")[0], lacks.OTHER), way)
        return False

    def _missing(self, source, node, name, why, way):
        top = name if name.startswith(".") else name.partition(".")[0]
        if self.elsewhere and top not in lacks.MODULES:
            # The script may make it, or find it where only a run can tell.
            way = way.maybe()
        self._need(source, node, f"import {top}", why, "import", way)

    def _name(self, source, node, module, name, way):
        found = self.baked.modules[module]
        if name == "*" or self.baked.has(f"{module}.{name}") or hasattr(found, name):
            return
        called = f"{module}.{name}"
        self._need(source, node, called, lacks.CALLS.get(called, "this Python does not have it"), "name", way)

    def _own_files(self, name):
        """The files of the skill that an import of this name runs."""
        parts = name.split(".")
        for folder in dict.fromkeys([self.folder, ""]):
            base = f"{folder}/" if folder else ""
            top = f"{self.mount}/{base}{parts[0]}"
            if not (os.path.isfile(top + ".py") or os.path.isdir(top)):
                continue
            if not os.path.isfile(top + ".py") and not os.path.isfile(top + "/__init__.py"):
                # A folder without `__init__.py` comes after every module.
                if self.baked.has(parts[0]):
                    continue
            files = []
            for count in range(1, len(parts) + 1):
                path = base + "/".join(parts[:count])
                files += [it for it in _candidates(path) if os.path.isfile(f"{self.mount}/{it}")][:1]
            last = base + "/".join(parts)
            if os.path.isdir(f"{self.mount}/{last}") or any(it in files for it in _candidates(last)):
                return files or [last]
        return []

    def _anywhere(self, name):
        """Whether the skill has a module of that name in some folder."""
        top = name.partition(".")[0]
        if not hasattr(self, "_all"):
            self._all = set()
            for folder, folders, names in os.walk(self.mount):
                folders[:] = [it for it in folders if it[0] != "."]
                self._all.update(folders)
                self._all.update(it[:-3] for it in names if it.endswith(".py"))
        return top in self._all

    def _own(self, path, way):
        if not path.endswith(".py"):
            return
        try:
            self._file(self._source(path), way)
        except SyntaxError as error:
            self._find(path, error.lineno or 1, PYTHON, error.msg, way.certain)
        except (OSError, ValueError) as error:
            self._find(path, None, "unreadable", str(error), way.certain)

    def _need(self, source, node, what, why, kind, way):
        """Notes what is not there, unless a handler does without."""
        catches = CATCHERS.get(kind, ANY)
        certain = way.certain
        for handlers in way.handlers:
            handler = next((it for it in handlers if _catches(it, catches)), None)
            if handler is None:
                continue
            if kind in ("import", "name") and self._has_instead(handler):
                return
            certain = certain and _may_leave(source, handler.body, surely=True)
            break
        self._find(source.path, node.lineno, what, why, certain)

    def _has_instead(self, handler):
        """Whether a handler imports something else, which is there."""
        names = []
        for node in handler.body:
            if isinstance(node, ast.Import):
                names += [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module)
        return bool(names) and all(self.baked.has(name) or self._own_files(name) for name in names)

    # Expressions.

    def _expression(self, source, node, way):
        match node:
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                way = way.maybe()
            case ast.IfExp():
                self._expression(source, node.test, way)
                self._expression(source, node.body, way.maybe())
                self._expression(source, node.orelse, way.maybe())
                return
            case ast.BoolOp():
                self._expression(source, node.values[0], way)
                for value in node.values[1:]:
                    self._expression(source, value, way.maybe())
                return
        for child in ast.iter_child_nodes(node):
            self._expression(source, child, way)
        if isinstance(node, ast.Call):
            self._call(source, node, way)

    def _call(self, source, node, way):
        name = source.dotted(node.func)
        if name is None:
            return
        if name in DYNAMIC:
            literal = node.args[0] if node.args else None
            if name in ("importlib.import_module", "__import__") and isinstance(literal, ast.Constant):
                self._module(source, node, str(literal.value), way)
            else:
                self._find(source.path, node.lineno, name, "what it runs is known only when it runs", False)
            return
        if name in lacks.CALLS:
            why = lacks.CALLS[name]
            self._need(source, node, name, why, why, way)
            return
        if isinstance(node.func, ast.Name) and name in source.top:
            self._function(source, source.top[name], way)
            return
        module, dot, called = name.rpartition(".")
        if not dot:
            return
        if files := self._own_files(module):
            own = self.sources.get(files[-1])
            if own and called in own.top:
                self._function(own, own.top[called], way)
        elif self.baked.has(module) and module.partition(".")[0] in source.aliases.values():
            self._name(source, node, module, called, way)

    def _function(self, source, node, way):
        key = (node.name, way.certain)
        if key in source.visited or (node.name in source.visited and not way.certain):
            return
        source.visited |= {key, node.name}
        self._block(source, node.body, way)


def _candidates(path):
    return f"{path}.py", f"{path}/__init__.py"


def _catches(handler, catches):
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(it).rpartition(".")[2] in catches for it in types)


def _is_exit(source, node):
    return isinstance(node, ast.Call) and source.dotted(node.func) in EXITS


def _may_leave(source, statements, surely=False):
    """Whether a block may (or surely does) leave the function or the program."""
    for statement in statements:
        if isinstance(statement, (ast.Raise, ast.Return)):
            return True
        if isinstance(statement, ast.Expr) and _is_exit(source, statement.value):
            return True
        if surely or isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inner = [child for child in ast.iter_child_nodes(statement)
                 if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case))]
        for child in inner:
            body = child.body if isinstance(child, (ast.excepthandler, ast.match_case)) else [child]
            if _may_leave(source, body):
                return True
    return False


def _known(source, test):
    """What a condition is in the sandbox, if that is known."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        known = _known(source, test.operand)
        return None if known is None else not known
    if isinstance(test, (ast.Name, ast.Attribute)):
        return False if source.dotted(test) in ("typing.TYPE_CHECKING", "TYPE_CHECKING") else None
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    values = {"__name__": "__main__", "os.name": "posix", "sys.platform": "wasi"}
    name, operator, other = source.dotted(test.left), test.ops[0], test.comparators[0]
    if name in values and isinstance(other, ast.Constant):
        if name == "__name__" and isinstance(operator, ast.Eq):
            return source.is_main == (other.value == "__main__")
        if isinstance(operator, (ast.Eq, ast.NotEq)):
            return (values[name] == other.value) == isinstance(operator, ast.Eq)
    if name == "sys.version_info" and isinstance(other, ast.Tuple):
        version = tuple(it.value for it in other.elts if isinstance(it, ast.Constant))
        if isinstance(operator, (ast.GtE, ast.Gt)):
            return sys.version_info[: len(version)] >= version
        if isinstance(operator, (ast.Lt, ast.LtE)):
            return sys.version_info[: len(version)] < version
    return None
