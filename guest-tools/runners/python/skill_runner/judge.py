"""The verdict on a script that has not run, by Python's own parser: what it imports and calls, in the
order in which a run would come to it. What every run comes to, before it can end well, decides. What a
run may come to, and what cannot be followed, leaves the verdict open."""

import ast
import builtins
import io
import keyword
import os
import subprocess
import sys
import tokenize
import typing
import urllib.error

from . import lacks

WILL_RUN, WILL_NOT, OPEN = "will run", "will not", "cannot be told"

PYTHON = "Python %d.%d" % sys.version_info[:2]

# The largest file that is read, and the findings that are told of a script. Guard against: a
# script that takes the parser all memory, and one whose verdict fills the model's.
LARGEST = 4 << 20
MOST_FINDINGS = 5
# Blocks within each other, through calls and imports, that are followed at once. Those below are judged
# later, as what may run. Guards against: a script that takes the stack.
DEEPEST = 50
# Meanings of a name, names that stand for a name, and methods of one name, that are followed. Guard
# against: a script that takes the time.
MOST_MEANINGS = 4
MOST_LINKS = 3
MOST_METHODS = 8
# Brackets within each other, and levels of a syntax tree, that the parser gets. Guards against: a
# script that takes the parser's stack, which would end the verdicts on all scripts.
MOST_BRACKETS = 60
MOST_LEVELS = 400

# Ways out of a part of a script that may end well.
BREAK, CONTINUE, RETURN, EXIT = "break", "continue", "return", "exit"
EXITS = {"sys.exit", "exit", "quit", "os._exit", "SystemExit", "unittest.main"}
DYNAMIC = {
    "importlib.import_module", "__import__", "exec", "runpy.run_path", "runpy.run_module",
    "importlib.util.spec_from_file_location", "importlib.machinery.SourceFileLoader",
}
UNKNOWN = "what it runs is known only when it runs"
IMPORTERS = {"importlib.import_module", "__import__"}
# Ways to functions by names that the script makes.
REFLECTS = {"globals", "locals", "vars", "eval", "exec", "dir", "getattr()", "__dict__", "getmembers", "methodcaller", "attrgetter"}
# Decorators after which a call of the function runs it, and nothing else does.
PLAIN = {"staticmethod", "classmethod", "property", "abstractmethod", "cache", "lru_cache", "cached_property", "override", "dataclass"}
# Modules with calls that fail.
FAILING = {name.rpartition(".")[0] for name in lacks.CALLS}
# Errors that a script does not get from anything else than what the sandbox does not have.
SELDOM = (KeyboardInterrupt, subprocess.SubprocessError, urllib.error.URLError)
# What a run of such a node may fail with that no one can tell. Calls are followed.
RISKY = (
    ast.Subscript, ast.BinOp, ast.AugAssign, ast.Assert, ast.Raise, ast.For, ast.AsyncFor, ast.Delete,
    ast.comprehension, ast.Starred, ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncWith, ast.With,
)


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


class Own(Exception):
    """Stands for the exceptions that a skill defines."""


class Need(typing.NamedTuple):
    """Something that a script needs and the sandbox does not have, or that nobody can tell."""

    path: str
    line: int | None
    what: str
    why: str
    # What a run fails with there, if that is known.
    error: type | None = None
    # Whether something before it may fail, too.
    is_late: bool = False


class Flow:
    """How runs of a part of a script go on. A need does not end it, so that all needs are found."""

    def __init__(self):
        # Whether a run may come to the end of the part.
        self.goes_on = True
        # The other ways out, without failing.
        self.exits = set()
        # Whether anything may raise an exception, and what is raised expressly.
        self.fails = False
        self.raised = set()
        # Needs that each run comes to, in order, and others.
        self.surely = []
        self.maybe = {}

    def need(self, need, surely=True):
        if surely and not self.exits and len(self.surely) < MOST_FINDINGS:
            self.surely.append(need._replace(is_late=need.is_late or self.fails))
        elif len(self.maybe) < 2 * MOST_FINDINGS:
            self.maybe[need] = None

    def follow(self, part, ends=frozenset()):
        """Adds a part that runs next. Some exits, such as its `return`, end only the part."""
        for need in part.surely:
            self.need(need)
        for need in part.maybe:
            self.need(need, False)
        self._leave(part.goes_on or bool(part.exits & ends), part, ends)

    def join(self, *parts):
        """Adds parts of which a run takes one."""
        for part in parts:
            for need in [*part.surely, *part.maybe]:
                self.need(need, False)
        goes_on = any(part.goes_on for part in parts)
        for part in parts:
            self._leave(goes_on, part)

    def perhaps(self, part, ends=frozenset()):
        """Adds a part that a run may leave out."""
        inner = Flow()
        inner.follow(part, ends)
        self.join(inner, Flow())

    def _leave(self, goes_on, part, ends=frozenset()):
        self.exits |= part.exits - ends
        self.raised |= part.raised
        self.fails = self.fails or part.fails
        self.goes_on = self.goes_on and goes_on


FUNCTION_ENDS = frozenset((RETURN, BREAK, CONTINUE))
LOOP_ENDS = frozenset((BREAK, CONTINUE))
# What nobody follows, and a function that calls itself: what it does in between, its own flow has.
ANYTHING, ITSELF = Flow(), Flow()
ANYTHING.exits = {BREAK, CONTINUE, RETURN, EXIT}
ANYTHING.fails = ITSELF.fails = True


class Scope:
    """The names that a module, a function or a class binds, and their meanings: the full name of something
    imported, a function, a class, an expression with its scope, or None for what cannot be followed."""

    def __init__(self, source, parent=None, node=None):
        self.source, self.node = source, node
        # The names of a class are not those of its methods.
        self.parent = parent.parent if parent and isinstance(parent.node, ast.ClassDef) else parent
        self.names = {}
        self.elsewhere = {}
        # How its function runs, if it is one.
        self.flow = None
        self.is_later = isinstance(node, ast.AsyncFunctionDef)

    def bind(self, name, meaning):
        meanings = self.elsewhere.get(name, self).names.setdefault(name, [])
        if len(meanings) < MOST_MEANINGS and meaning not in meanings:
            meanings.append(meaning)

    def find(self, name):
        scope = self
        while scope and name not in scope.names:
            scope = scope.parent
        return scope.names[name] if scope else None

    def is_class(self):
        return isinstance(self.node, ast.ClassDef)

    def is_plain(self):
        """Whether only a call by its name runs a function."""
        return all(_last(it.func if isinstance(it, ast.Call) else it) in PLAIN for it in self.node.decorator_list)


class Source:
    """A file of the skill that has been parsed."""

    def __init__(self, path, tree, is_main):
        self.path = path
        self.tree = tree
        self.is_main = is_main
        self.flow = None
        self.scope = Scope(self)
        # The modules that all names are imported from, the functions, and those that a library may call.
        self.stars, self.functions, self.called = [], [], []
        self.mentioned = set()
        self.searches = False
        nodes, bound = [(tree, self.scope)], set()
        while nodes:
            node, scope = nodes.pop()
            inner = self._bind(node, scope, bound)
            nodes += [(child, inner) for child in ast.iter_child_nodes(node)][::-1]

    def _bind(self, node, scope, bound):
        """Notes the names of a node. Returns the scope of what is in it."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                inner = Scope(self, scope, node)
                scope.bind(node.name, inner)
                if not inner.is_class():
                    self.functions.append(inner)
                    is_method = scope.is_class() and (scope.node.bases or scope.node.keywords or not scope.is_plain())
                    if is_method or not inner.is_plain():
                        self.called.append((scope.node.name if is_method else node.name, inner))
                return inner
            case ast.Import():
                for name in node.names:
                    top = name.name.partition(".")[0]
                    scope.bind(name.asname or top, name.name if name.asname else top)
            case ast.ImportFrom():
                module = node.module or ""
                if node.level:
                    folder = self.path.split("/")[:-node.level]
                    module = "/" + "/".join([*folder, *(module.split(".") if module else [])])
                for name in node.names:
                    if name.name == "*":
                        self.stars.append(module)
                    else:
                        dot = "/" if node.level and not node.module else "."
                        scope.bind(name.asname or name.name, f"{module}{dot}{name.name}")
                self.searches = self.searches or module == "sys" and any(it.name == "path" for it in node.names)
            case ast.Global() | ast.Nonlocal():
                for name in node.names:
                    scope.elsewhere[name] = self.scope if isinstance(node, ast.Global) else scope.parent or self.scope
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.withitem(
                optional_vars=ast.Name(id=name), context_expr=value
            ):
                scope.bind(name, (scope, value))
                # By itself, the name would have another meaning.
                bound.add(node.targets[0] if isinstance(node, ast.Assign) else node.optional_vars)
            case ast.Name(id=name):
                self.mentioned.add(name)
                if not isinstance(node.ctx, ast.Load) and node not in bound:
                    scope.bind(name, None)
            case ast.Attribute():
                self.mentioned.add(node.attr)
                if node.attr == "path" and isinstance(node.value, ast.Name) and node.value.id == "sys":
                    self.searches = True
                if not isinstance(node.ctx, ast.Load):
                    # Not what the module has by itself.
                    self.mentioned.add("=" + node.attr)
            case ast.alias(name=name):
                self.mentioned.add(name)
            case ast.arg(arg=name) | ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(
                name=name
            ) | ast.MatchMapping(rest=name) if name:
                scope.bind(name, None)
            case ast.Yield() | ast.YieldFrom():
                scope.is_later = True
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                self.mentioned.add(name)
            case ast.Call(func=ast.Name(id="getattr")):
                self.mentioned.add("getattr()")
        return scope


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
        self.sources = {}
        self.files = {}
        # Functions by their names, those that nothing mentions yet, and what is judged as what may run.
        self.functions, self.waiting, self.later = {}, {}, []
        self.mentioned = set()
        self.script = script
        self.folder = os.path.dirname(script)
        # Whether the script looks for modules in other folders, too.
        self.elsewhere = False
        self.depth, self.active = 0, []
        docstring = ""
        flow = Flow()
        try:
            source = self._source(script)
            docstring = (ast.get_docstring(source.tree) or "").strip().partition("\n")[0][:200]
            self._block(source.scope, source.tree.body, flow)
            while self.later:
                scope, nodes = self.later.pop()
                if nodes is not None:
                    flow.perhaps(self._part(scope, nodes))
                elif scope.flow is None:
                    flow.perhaps(self._function(scope))
        except SyntaxError as error:
            flow.surely.append(Need(script, error.lineno or 1, PYTHON, error.msg))
        except (OSError, ValueError) as error:
            flow.surely.append(Need(script, None, "unreadable", str(error)))
        except (MemoryError, RecursionError):
            flow.maybe[Need(script, None, "nested too deeply to be judged", "")] = None
        except Exception as error:
            # A script that nobody can judge, such as one in an encoding that is none, ends no other verdict.
            flow.maybe[Need(script, None, "cannot be judged", f"{type(error).__name__}: {error}")] = None
        verdict = WILL_NOT if flow.surely else OPEN if flow.maybe else WILL_RUN
        told = {(need.path, need.what): need for need in [*(flow.surely or flow.maybe)][::-1]}
        return {
            "script": script,
            "description": docstring,
            "verdict": verdict,
            "reasons": [
                {"path": need.path, "line": need.line, "needs": need.what, "instead": need.why}
                for need in [*told.values()][::-1][:MOST_FINDINGS]
            ],
        }

    def _source(self, path):
        if path not in self.sources:
            with open(f"{self.mount}/{path}", "rb") as file:
                text = file.read(LARGEST + 1)
            if len(text) > LARGEST:
                raise ValueError(f"larger than {LARGEST} bytes")
            if is_too_deep(text):
                raise RecursionError
            source = self.sources[path] = Source(path, ast.parse(text), path == self.script)
            self.elsewhere = self.elsewhere or source.searches
            for function in source.functions:
                self.functions.setdefault(function.node.name, []).append(function)
            called = [(function.node.name, function) for function in source.functions] + source.called
            for name, function in called:
                self.waiting.setdefault(name, []).append(function)
            self.mentioned |= source.mentioned
            names = {name for name, _ in called}
            names = names & self.mentioned | source.mentioned | {name for name in names if name[:2] == "__"}
            for name in sorted(self.waiting if self.mentioned & REFLECTS else names):
                self.later += [(it, None) for it in self.waiting.pop(name, ())]
        return self.sources[path]

    # Flow of statements and expressions.

    def _block(self, scope, nodes, flow):
        if self.depth >= DEEPEST:
            self.later.append((scope, nodes))
            flow.perhaps(ANYTHING)
            return
        self.depth += 1
        for node in nodes:
            if not flow.goes_on:
                break
            self._visit(scope, node, flow)
        self.depth -= 1

    def _part(self, scope, nodes):
        part = Flow()
        self._block(scope, nodes, part)
        return part

    def _visit(self, scope, node, flow):
        flow.fails = flow.fails or isinstance(node, RISKY)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                # Annotations are not run.
                values = [it for it in ast.iter_child_nodes(node.args) if not isinstance(it, ast.arg)]
                for child in [*getattr(node, "decorator_list", ()), *values]:
                    self._visit(scope, child, flow)
                if isinstance(node, ast.Lambda):
                    flow.perhaps(self._part(scope, [node.body]))
            case ast.ClassDef():
                for child in [*node.decorator_list, *node.bases, *node.keywords]:
                    self._visit(scope, child, flow)
                body = self._inner(scope, node)
                self._block(body, node.body, flow)
            case ast.Import():
                for name in node.names:
                    self._module(scope, node, name.name, flow)
            case ast.ImportFrom():
                self._import_from(scope, node, flow)
            case ast.If():
                self._if(scope, node, flow)
            case ast.IfExp():
                self._visit(scope, node.test, flow)
                flow.join(self._part(scope, [node.body]), self._part(scope, [node.orelse]))
            case ast.BoolOp():
                self._visit(scope, node.values[0], flow)
                flow.perhaps(self._part(scope, node.values[1:]))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                first = node.generators[0].iter
                self._visit(scope, first, flow)
                children = [it for it in ast.iter_child_nodes(node) if it is not node.generators[0]]
                children += [it for it in ast.iter_child_nodes(node.generators[0]) if it is not first]
                flow.perhaps(self._part(scope, children))
            case ast.Try() | ast.TryStar():
                self._try(scope, node, flow)
            case ast.With() | ast.AsyncWith():
                self._with(scope, node, flow)
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(scope, node, flow)
            case ast.Match():
                self._visit(scope, node.subject, flow)
                cases = [self._part(scope, ast.iter_child_nodes(case)) for case in node.cases]
                flow.join(*cases, Flow())
            case ast.AnnAssign():
                for child in (node.target, node.value):
                    if child:
                        self._visit(scope, child, flow)
            case ast.TypeAlias() | ast.TypeVar() | ast.ParamSpec() | ast.TypeVarTuple():
                # Run when something asks for them.
                pass
            case ast.Return() | ast.Break() | ast.Continue() | ast.Raise():
                self._leave(scope, node, flow)
            case ast.Call():
                self._call(scope, node, flow)
            case ast.Await(value=ast.Call() as call):
                self._call(scope, call, flow, is_awaited=True)
            case ast.Name() | ast.Attribute():
                self._value(scope, node, flow)
            case _:
                for child in ast.iter_child_nodes(node):
                    self._visit(scope, child, flow)

    def _inner(self, scope, node):
        """The scope of a class."""
        found = scope.elsewhere.get(node.name, scope).names.get(node.name, ())
        return next((it for it in found if isinstance(it, Scope) and it.node is node), scope)

    def _if(self, scope, node, flow):
        ends, at = [], flow
        while True:
            self._visit(scope, node.test, at)
            known = self._known(scope, node.test)
            if known is None:
                ends.append(self._part(scope, node.body))
                at = Flow()
            rest = node.body if known else node.orelse
            if known or not (len(rest) == 1 and isinstance(rest[0], ast.If)):
                break
            node = rest[0]
        self._block(scope, rest, at)
        if at is not flow:
            flow.join(*ends, at)

    def _loop(self, scope, node, flow):
        is_endless = False
        if isinstance(node, ast.While):
            self._visit(scope, node.test, flow)
            is_endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
            body = self._part(scope, node.body)
        else:
            self._visit(scope, node.iter, flow)
            body = self._part(scope, [node.target, *node.body])
        breaks = BREAK in body.exits
        if is_endless:
            # Nothing but a `break` ends it.
            body.goes_on = False
            flow.follow(body, LOOP_ENDS)
            flow.goes_on = breaks
        else:
            flow.perhaps(body, LOOP_ENDS)
            flow.goes_on = True
            orelse = self._part(scope, node.orelse)
            (flow.perhaps if breaks else flow.follow)(orelse)

    def _leave(self, scope, node, flow):
        """Follows what ends a block."""
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.Raise) and self._values(scope, child) == ["SystemExit"]:
                flow.exits.add(EXIT)
            self._visit(scope, child, flow)
        match node:
            case ast.Raise():
                if flow.goes_on:
                    error = self._error(scope, node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
                    flow.raised.add(None if error is Own else error)
            case ast.Return():
                flow.exits.add(RETURN)
            case _:
                flow.exits.add(BREAK if isinstance(node, ast.Break) else CONTINUE)
        flow.goes_on = False

    def _with(self, scope, node, flow):
        # What is caught there: by `suppress`, and perhaps by what cannot be followed.
        catchers = []
        for item in node.items:
            for child in ast.iter_child_nodes(item):
                self._visit(scope, child, flow)
            manager = item.context_expr
            called = self._values(scope, manager)
            if called == ["contextlib.suppress()"]:
                catchers.append(([self._error(scope, it) for it in manager.args], []))
            elif not all(isinstance(it, str) and not it.endswith("ExitStack()") for it in called):
                catchers.append(([None], []))
        self._caught(scope, node.body, catchers, [], Flow(), flow)

    def _try(self, scope, node, flow):
        catchers = []
        for handler in node.handlers:
            types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            errors = [self._error(scope, it) if it else BaseException for it in types]
            catchers.append((errors, [*([handler.type] if handler.type else ()), *handler.body]))
        # What ends the last block ends the exception, too.
        ending = self._part(scope, node.finalbody)
        self._caught(scope, node.body, catchers, node.orelse, ending, flow)
        goes_on, flow.goes_on = flow.goes_on, True
        flow.follow(ending)
        flow.goes_on = flow.goes_on and goes_on

    def _caught(self, scope, body, catchers, orelse, ending, flow):
        """Follows a block whose exceptions are caught."""
        inner = self._part(scope, body)
        # Without an exception, no handler runs.
        ends = [(errors, nodes, self._part(scope, nodes)) for errors, nodes in catchers if inner.fails]
        survivors = [errors for errors, _, end in ends if end.goes_on or end.exits]
        is_risky = any(not all(it and issubclass(it, SELDOM) for it in errors) for errors in survivors)
        is_sure = not ending.exits
        needs = [*((need, True) for need in inner.surely), *((need, False) for need in inner.maybe)]
        for need, surely in needs:
            is_passed = False
            for errors, nodes, end in ends:
                catches = _catches(errors, need.error)
                if catches is False:
                    continue
                if end.goes_on or end.exits:
                    is_passed = True
                    if catches and _is_import(need) and any(isinstance(it, (ast.Import, ast.ImportFrom)) for it in nodes):
                        # It imports something else, which is there.
                        need = need if end.surely or end.maybe else None
                    break
                raised = end.raised if catches else ()
                need = need._replace(error=next(iter(raised)) if len(raised) == 1 else None)
                if catches:
                    break
            if need:
                flow.need(need, surely and is_sure and not is_passed and not (need.is_late and is_risky))
            is_sure = is_sure and not is_passed
        inner.surely, inner.maybe = [], {}
        if inner.goes_on:
            self._block(scope, orelse, inner)
        if survivors:
            flow.join(inner, *(end for _, _, end in ends))
        else:
            flow.follow(inner)
            for _, _, end in ends:
                flow.perhaps(end)

    # Calls and names.

    def _call(self, scope, node, flow, is_awaited=False):
        values = self._values(scope, node.func)
        base = node.func
        while isinstance(base, ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name):
            self._visit(scope, base, flow)
        arguments = [*node.args, *node.keywords]
        asked = []
        match values, node.args:
            case ["hasattr"], [_, ast.Constant()]:
                arguments = []
            case ["getattr"], [module, ast.Constant(value=name), *others]:
                found = [f"{it}.{name}" for it in self._values(scope, module) if isinstance(it, str)]
                # With a value for when it is not there.
                asked = [it for it in found if not others or it in lacks.CALLS and self._is_there(it)]
                arguments = others
            case ["isinstance" | "issubclass"], [value, _]:
                arguments = [value]
        runs = values == ["asyncio.run"] or isinstance(node.func, ast.Attribute) and node.func.attr == "run_until_complete"
        for argument in arguments:
            if runs and isinstance(argument, ast.Call):
                self._call(scope, argument, flow, is_awaited=True)
            else:
                self._visit(scope, argument, flow)
        self._refer(scope, node, asked, flow)
        if len(values) == 1:
            self._run(scope, node, values[0], flow, is_awaited)
        else:
            parts = [Flow() for _ in values]
            for value, part in zip(values, parts):
                self._run(scope, node, value, part, is_awaited)
            flow.join(*parts, Flow())

    def _run(self, scope, node, value, flow, is_awaited):
        """Follows the call of one value."""
        if isinstance(value, Scope):
            function = value
            if value.is_class():
                function = next((it for it in value.names.get("__init__", ()) if isinstance(it, Scope)), None)
            if function and not function.is_class():
                is_sure = function is value and function.is_plain() and function.is_later == is_awaited
                (flow.follow if is_sure else flow.perhaps)(self._function(function), FUNCTION_ENDS)
            flow.fails = flow.fails or value.is_class()
            return
        if value is None and isinstance(node.func, ast.Attribute):
            # Perhaps a method of the skill.
            methods = self.functions.get(node.func.attr, ())
            for method in methods[:MOST_METHODS]:
                flow.perhaps(self._function(method), FUNCTION_ENDS)
            if len(methods) > MOST_METHODS:
                flow.perhaps(ANYTHING, FUNCTION_ENDS)
        elif value in EXITS:
            self._exit(node, flow)
        elif value in IMPORTERS and node.args and isinstance(node.args[0], ast.Constant):
            self._module(scope, node, str(node.args[0].value), flow)
        elif value in DYNAMIC:
            flow.need(Need(scope.source.path, node.lineno, value, UNKNOWN), False)
        elif value:
            made, _, method = value.partition("().")
            if made in lacks.LATER and method in lacks.STARTS:
                value, is_awaited = made, True
            if value in lacks.CALLS:
                # A coroutine or such an object does nothing by itself.
                is_sure = is_awaited or not (value in lacks.LATER or value.startswith("asyncio."))
                flow.need(self._failing(scope, node, value), is_sure)
            else:
                self._attribute(scope, node, value, flow, True)
        flow.fails = True

    def _function(self, scope):
        if scope.flow is None:
            if scope in self.active:
                return ITSELF if scope is self.active[-1] else ANYTHING
            self.active.append(scope)
            scope.flow = self._part(scope, scope.node.body)
            self.active.pop()
        return scope.flow

    def _exit(self, node, flow):
        match node.args:
            case [ast.Constant(value=code)]:
                fails = code is not None and code != 0
            case [ast.JoinedStr()] | [ast.BinOp(left=ast.JoinedStr() | ast.Constant(value=str()))]:
                fails = True
            case _:
                fails = False
        if fails:
            flow.raised.add(SystemExit)
        else:
            flow.exits.add(EXIT)
        flow.goes_on = False

    def _value(self, scope, node, flow):
        """Follows a name or an attribute that is not called at once."""
        base = node
        while isinstance(base, ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name):
            self._visit(scope, base, flow)
        if isinstance(node.ctx, ast.Load):
            values = self._values(scope, node)
            flow.fails = flow.fails or None in values and isinstance(node, ast.Attribute)
            self._refer(scope, node, values, flow)

    def _refer(self, scope, node, values, flow):
        for value in values:
            if isinstance(value, Scope):
                if not value.is_class():
                    flow.perhaps(self._function(value), FUNCTION_ENDS)
            elif value in lacks.CALLS:
                flow.need(self._failing(scope, node, value), False)
            elif value in DYNAMIC or value in FAILING:
                flow.need(Need(scope.source.path, node.lineno, value, UNKNOWN), False)
            elif value:
                # Of `sys`, some are there only at times.
                self._attribute(scope, node, value, flow, len(values) == 1 and not value.startswith("sys."))

    def _failing(self, scope, node, value):
        why = lacks.CALLS[value]
        errors = {lacks.NETWORK: OSError, lacks.THREAD: RuntimeError}
        if not self._is_there(value):
            error = AttributeError
        elif value.startswith(("subprocess.", "os.system", "os.popen", "asyncio.create_")):
            error = FileNotFoundError
        elif value.startswith("urllib.request."):
            error = urllib.error.URLError
        else:
            error = None if value.startswith("multiprocessing.") else errors.get(why)
        return Need(scope.source.path, node.lineno, value, why, error)

    def _is_there(self, value):
        module, _, name = value.rpartition(".")
        return self.baked.has(module) and hasattr(self.baked.modules[module], name)

    def _attribute(self, scope, node, value, flow, surely):
        """Notes an attribute that a module does not have."""
        module, _, name = value.rpartition(".")
        if "(" in value or not self.baked.has(module) or self.baked.has(value) or self._is_there(value) or self._own_files(module):
            return
        # The script may set it.
        surely = surely and "=" + name not in self.mentioned
        flow.need(Need(scope.source.path, node.lineno, value, "this Python does not have it", AttributeError), surely)

    def _values(self, scope, node, links=MOST_LINKS):
        """What an expression may stand for, if it is a name: see `Scope`."""
        parts = []
        while not isinstance(node, ast.Name):
            match node:
                case ast.Attribute(value=value, attr=name):
                    parts.append("." + name)
                case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name))]):
                    parts.append("." + name)
                case ast.Call(args=[ast.Constant(value=str(name))]) if _last(node.func) in ("import_module", "__import__"):
                    return self._member(name + "".join(parts[::-1]), links)
                case ast.Call(func=value) if "()" not in parts:
                    parts.append("()")
                case _:
                    return [None]
            node = value
        return self._named(scope, node.id, "".join(parts[::-1]), links)

    def _named(self, scope, name, end, links):
        meanings = scope.find(name)
        if meanings is None:
            meanings = self._stars(scope.source, name)
        values = []
        for meaning in meanings:
            found = [meaning]
            if isinstance(meaning, tuple):
                found = self._values(*meaning, links - 1) if links else [None]
            for value in found:
                if isinstance(value, str):
                    values += self._member(value + end, links)
                else:
                    values.append(None if end else value)
        return list(dict.fromkeys(values))[:MOST_MEANINGS]

    def _stars(self, source, name):
        for module in source.stars[:MOST_METHODS]:
            own = self._loaded(module)
            if own and name in own.scope.names or not own and self._is_there(f"{module}.{name}"):
                return [f"{module}.{name}"]
        return [name]

    def _member(self, value, links):
        """What a full name stands for, if it is one of a module of the skill."""
        module, _, name = value.rpartition(".")
        source = self._loaded(module)
        if source is None or not links:
            return [value]
        if name in source.scope.names or source.stars:
            return self._named(source.scope, name, "", links - 1)
        return [None]

    def _error(self, scope, node):
        """The exception that an expression names; None if that cannot be told."""
        values = self._values(scope, node) if node else ()
        match values:
            case [Scope() as own] if own.is_class():
                return Own
            case [str(value)]:
                module, _, name = value.rpartition(".")
                found = getattr(self.baked.modules.get(module) if module else builtins, name, None)
                return found if isinstance(found, type) and issubclass(found, BaseException) else None
        return None

    def _known(self, scope, test):
        """What a condition is in the sandbox, if that is known."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            known = self._known(scope, test.operand)
            return None if known is None else not known
        if isinstance(test, (ast.Name, ast.Attribute)):
            return False if self._values(scope, test) in (["typing.TYPE_CHECKING"], ["TYPE_CHECKING"]) else None
        match test:
            case ast.Call(func=ast.Name(id="hasattr"), args=[module, ast.Constant(value=str(name))]):
                found = self._values(scope, module)
                if not (len(found) == 1 and self.baked.has(found[0])) or "=" + name in self.mentioned:
                    return None
                return self.baked.has(f"{found[0]}.{name}") or self._is_there(f"{found[0]}.{name}")
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
            return None
        values = {"__name__": "__main__", "os.name": "posix", "sys.platform": "wasi"}
        (name, *_), operator, other = self._values(scope, test.left), test.ops[0], test.comparators[0]
        if name in values and isinstance(other, ast.Constant):
            if name == "__name__" and isinstance(operator, ast.Eq):
                return scope.source.is_main == (other.value == "__main__")
            if isinstance(operator, (ast.Eq, ast.NotEq)):
                return (values[name] == other.value) == isinstance(operator, ast.Eq)
        if name == "sys.version_info" and isinstance(other, ast.Tuple):
            version = tuple(it.value for it in other.elts if isinstance(it, ast.Constant))
            if isinstance(operator, (ast.GtE, ast.Gt)):
                return sys.version_info[: len(version)] >= version
            if isinstance(operator, (ast.Lt, ast.LtE)):
                return sys.version_info[: len(version)] < version
        return None

    # Imports.

    def _import_from(self, scope, node, flow):
        source, module = scope.source, node.module or ""
        if node.level:
            shown = "." * node.level + module
            if source.path == self.script:
                self._missing(scope, node, shown, "a script that is run by its path is in no package", flow)
                return
            folder = source.path.split("/")[:-node.level]
            module = "/" + "/".join([*folder, *(module.split(".") if module else [])])
            if not self._own_files(module):
                self._missing(scope, node, shown, "the skill does not have it", flow)
                return
        elif not self._module(scope, node, module, flow):
            return
        files = self._own_files(module)
        for file in files if node.level else ():
            self._own(file, flow)
        own = self._loaded(module)
        dot = "/" if node.level else "."
        for name in node.names:
            full = f"{module}{dot}{name.name}"
            if found := self._own_files(full):
                for file in found:
                    self._own(file, flow)
            elif name.name == "*":
                continue
            elif files:
                names = own.scope.names if own else {}
                if name.name not in names and not (own and (own.stars or "__getattr__" in names or own.mentioned & REFLECTS)):
                    why = f"{files[-1]} does not have it"
                    flow.need(Need(source.path, node.lineno, f"{'.' * node.level}{node.module or ''}.{name.name}", why, ImportError))
                    flow.fails = True
            elif self.baked.has(module) and not self.baked.has(full) and not self._is_there(full):
                why = lacks.CALLS.get(full, "this Python does not have it")
                flow.need(Need(source.path, node.lineno, full, why, ImportError))
                flow.fails = True

    def _module(self, scope, node, name, flow):
        """Follows the import of a module. Returns whether it is there."""
        if files := self._own_files(name):
            for file in files:
                self._own(file, flow)
            return True
        if self.baked.has(name) or name in sys.builtin_module_names:
            return True
        if self.elsewhere and self._anywhere(name):
            return True
        self._missing(scope, node, name, lacks.MODULES.get(name.partition(".")[0], lacks.OTHER), flow)
        return False

    def _missing(self, scope, node, name, why, flow):
        top = name if name.startswith(".") else name.partition(".")[0]
        # With more folders, the script may make it, or find it where only a run can tell.
        surely = not self.elsewhere or top in lacks.MODULES
        flow.need(Need(scope.source.path, node.lineno, f"import {top}", why, ModuleNotFoundError), surely)
        flow.fails = True

    def _loaded(self, module):
        """The last file of a module of the skill, if it has been read."""
        files = self._own_files(module)
        return self.sources.get(files[-1]) if files else None

    def _own_files(self, name):
        """The files of the skill that an import of this name runs."""
        if name not in self.files:
            self.files[name] = self._find_files(name)
        return self.files[name]

    def _find_files(self, name):
        parts = name.split(".")
        folders = dict.fromkeys([self.folder, ""])
        if name.startswith("/"):
            parts, folders = [name[1:]], [""]
        for folder in folders:
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

    def _own(self, path, flow):
        if not path.endswith(".py"):
            return
        try:
            source = self._source(path)
            if source.flow is None:
                # What imports itself in a circle finds the module begun.
                source.flow = Flow()
                source.flow = self._part(source.scope, source.tree.body)
            flow.follow(source.flow)
            return
        except SyntaxError as error:
            need = Need(path, error.lineno or 1, PYTHON, error.msg, SyntaxError)
        except (OSError, ValueError) as error:
            need = Need(path, None, "unreadable", str(error))
        flow.need(need)
        flow.fails = True


def _candidates(path):
    return f"{path}.py", f"{path}/__init__.py"


def _last(node):
    """The last part of a name."""
    return getattr(node, "attr", getattr(node, "id", None))


def _is_import(need):
    return need.error is not None and issubclass(need.error, ImportError)


def _catches(errors, error):
    """Whether a handler of some exceptions catches one; None if that cannot be told."""
    if BaseException in errors:
        return True
    if error is None:
        return False if all(it is KeyboardInterrupt for it in errors) else None
    if any(it and issubclass(error, it) for it in errors):
        return True
    return None if any(it is None or issubclass(it, error) for it in errors) else False
