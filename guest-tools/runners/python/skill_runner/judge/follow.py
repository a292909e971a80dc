"""Follows a script through its statements, calls and imports, in the order of a run."""

import ast
import subprocess
import sys
import urllib.error

from .. import unsupported
from . import hosts
from .flow import ANYTHING, BREAK, CONTINUE, EXIT, FUNCTION_ENDS, ITSELF, LOOP_ENDS, RETURN, Flow, Need
from .names import REFLECTION, SkillException
from .source import Scope, children

PYTHON = "Python %d.%d" % sys.version_info[:2]
# The maximum depth of nested blocks, calls and imports to follow. Deeper blocks are followed later, as code that may
# run. Guards against: a script that overflows the stack.
MAX_DEPTH = 50
# The maximum number of methods of one name to follow. Guards against: a script that takes too long.
MAX_METHODS = 8
EXITS = {"sys.exit", "exit", "quit", "os._exit", "SystemExit", "unittest.main"}
DYNAMIC = {
    "importlib.import_module", "__import__", "exec", "runpy.run_path", "runpy.run_module",
    "importlib.util.spec_from_file_location", "importlib.machinery.SourceFileLoader",
}
UNKNOWN_REASON = "what it runs is known only when it runs"
IMPORTERS = {"importlib.import_module", "__import__"}
# The modules with unsupported calls.
UNSUPPORTED_MODULES = {name.rpartition(".")[0] for name in unsupported.CALLS}
# The errors that a script gets only from unsupported features.
SANDBOX_ERRORS = (KeyboardInterrupt, subprocess.SubprocessError, urllib.error.URLError)
# The syntax nodes that may raise an unknown exception. Calls are not among them, because they are followed.
RISKY = frozenset((
    ast.Subscript, ast.BinOp, ast.AugAssign, ast.Assert, ast.Raise, ast.For, ast.AsyncFor, ast.Delete,
    ast.comprehension, ast.Starred, ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncWith, ast.With,
))


class Follower:
    """Follows the parts of one script."""

    def __init__(self, names):
        self._names = names
        self._baked = names.baked
        self._hosts, self._granted = hosts.Hosts(names), hosts.Granted()
        self._depth = 0
        # The functions that are being followed.
        self._active = []

    def block(self, scope, nodes, flow):
        """Follows nodes in their order."""
        if self._depth >= MAX_DEPTH:
            self._names.later.append((scope, nodes))
            flow.follow_optional(ANYTHING)
            return
        self._depth += 1
        for node in nodes:
            if not flow.can_continue:
                break
            self._visit(scope, node, flow)
        self._depth -= 1

    def part(self, scope, nodes):
        """Returns the flow of nodes, apart from the code around them."""
        part = Flow()
        self.block(scope, nodes, part)
        return part

    def function(self, scope):
        """Returns the flow of a function."""
        if scope.flow is None:
            if scope in self._active:
                return ITSELF if scope is self._active[-1] else ANYTHING
            self._active.append(scope)
            scope.flow = self.part(scope, scope.node.body)
            self._active.pop()
        return scope.flow

    def _visit(self, scope, node, flow):
        kind = type(node)
        if kind in RISKY:
            flow.fails = True
        visit = VISITORS.get(kind)
        if visit is not None:
            visit(self, scope, node, flow)
            return
        for child in children(node):
            self._visit(scope, child, flow)

    # Statements and expressions. For a type without a method, `_visit` visits all children.

    def visit_TypeAlias(self, scope, node, flow):
        """Follows nothing: Python evaluates these nodes only on use."""

    visit_TypeVar = visit_ParamSpec = visit_TypeVarTuple = visit_Constant = visit_TypeAlias

    def visit_FunctionDef(self, scope, node, flow):
        # Annotations are not run.
        for child in [*getattr(node, "decorator_list", ()), *node.args.kw_defaults, *node.args.defaults]:
            if child:
                self._visit(scope, child, flow)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, scope, node, flow):
        self.visit_FunctionDef(scope, node, flow)
        flow.follow_optional(self.part(scope, [node.body]))

    def visit_ClassDef(self, scope, node, flow):
        for child in [*node.decorator_list, *node.bases, *node.keywords]:
            self._visit(scope, child, flow)
        self.block(scope.of_class(node), node.body, flow)

    def visit_If(self, scope, node, flow):
        # Follow a chain of `elif` in a loop: the syntax tree nests each one deeper.
        branches, current = [], flow
        while True:
            self._visit(scope, node.test, current)
            result = self._names.condition(scope, node.test)
            if result is None:
                branches.append(self.part(scope, node.body))
                current = Flow()
            rest = node.body if result else node.orelse
            if result or not (len(rest) == 1 and isinstance(rest[0], ast.If)):
                break
            node = rest[0]
        self.block(scope, rest, current)
        if current is not flow:
            flow.join(*branches, current)

    def visit_IfExp(self, scope, node, flow):
        self._visit(scope, node.test, flow)
        flow.join(self.part(scope, [node.body]), self.part(scope, [node.orelse]))

    def visit_BoolOp(self, scope, node, flow):
        self._visit(scope, node.values[0], flow)
        flow.follow_optional(self.part(scope, node.values[1:]))

    def visit_Compare(self, scope, node, flow):
        first, *others = node.comparators
        self._visit(scope, node.left, flow)
        self._visit(scope, first, flow)
        if others:
            flow.follow_optional(self.part(scope, others))

    def visit_Assert(self, scope, node, flow):
        self._visit(scope, node.test, flow)
        if node.msg:
            flow.follow_optional(self.part(scope, [node.msg]))

    def visit_ListComp(self, scope, node, flow):
        first = node.generators[0]
        self._visit(scope, first.iter, flow)
        nodes = [it for it in children(node) if it is not first]
        nodes += [it for it in children(first) if it is not first.iter]
        flow.follow_optional(self.part(scope, nodes))

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def visit_Match(self, scope, node, flow):
        self._visit(scope, node.subject, flow)
        cases = [self.part(scope, children(case)) for case in node.cases]
        flow.join(*cases, Flow())

    def visit_AnnAssign(self, scope, node, flow):
        for child in (node.target, node.value):
            if child:
                self._visit(scope, child, flow)

    def visit_While(self, scope, node, flow):
        self._visit(scope, node.test, flow)
        body = self.part(scope, node.body)
        if not (isinstance(node.test, ast.Constant) and node.test.value):
            self._loop(scope, node, body, flow)
            return
        # Only a `break` ends a `while True`.
        has_break = BREAK in body.exits
        body.can_continue = False
        flow.follow(body, LOOP_ENDS)
        flow.can_continue = has_break

    def visit_For(self, scope, node, flow):
        self._visit(scope, node.iter, flow)
        self._loop(scope, node, self.part(scope, [node.target, *node.body]), flow)

    visit_AsyncFor = visit_For

    def _loop(self, scope, node, body, flow):
        flow.follow_optional(body, LOOP_ENDS)
        flow.can_continue = True
        orelse = self.part(scope, node.orelse)
        (flow.follow_optional if BREAK in body.exits else flow.follow)(orelse)

    def visit_Return(self, scope, node, flow):
        if node.value:
            self._visit(scope, node.value, flow)
        flow.exits.add(RETURN)
        flow.can_continue = False

    def visit_Break(self, scope, node, flow):
        flow.exits.add(BREAK if isinstance(node, ast.Break) else CONTINUE)
        flow.can_continue = False

    visit_Continue = visit_Break

    def visit_Raise(self, scope, node, flow):
        for child in children(node):
            if self._names.values(scope, child) == ["SystemExit"]:
                flow.exits.add(EXIT)
            self._visit(scope, child, flow)
        if flow.can_continue:
            error = self._names.error(scope, node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
            flow.raised.add(None if error is SkillException else error)
        flow.can_continue = False

    # Exceptions.

    def visit_With(self, scope, node, flow):
        # The managers that catch exceptions: `suppress`, and those that cannot be followed and may do so.
        catchers = []
        for item in node.items:
            for child in children(item):
                self._visit(scope, child, flow)
            manager = item.context_expr
            called = self._names.values(scope, manager)
            if called == ["contextlib.suppress()"]:
                catchers.append(([self._names.error(scope, it) for it in manager.args], []))
            elif not all(isinstance(it, str) and not it.endswith("ExitStack()") for it in called):
                catchers.append(([None], []))
        self._caught(scope, node.body, catchers, [], Flow(), flow)

    visit_AsyncWith = visit_With

    def visit_Try(self, scope, node, flow):
        catchers = []
        for handler in node.handlers:
            types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            errors = [self._names.error(scope, it) if it else BaseException for it in types]
            catchers.append((errors, [*([handler.type] if handler.type else ()), *handler.body]))
        # An exit in `finally` drops the exception.
        ending = self.part(scope, node.finalbody)
        self._caught(scope, node.body, catchers, node.orelse, ending, flow)
        can_continue, flow.can_continue = flow.can_continue, True
        flow.follow(ending)
        flow.can_continue = flow.can_continue and can_continue

    visit_TryStar = visit_Try

    def _caught(self, scope, body, catchers, orelse, ending, flow):
        """Follows a block inside `try` or `with`, and its handlers."""
        inner = self.part(scope, body)
        # If the block cannot raise an exception, no handler runs.
        ends = [(errors, nodes, self.part(scope, nodes)) for errors, nodes in catchers if inner.fails]
        survivors = [errors for errors, _, end in ends if end.can_continue or end.exits]
        is_risky = any(not all(it and issubclass(it, SANDBOX_ERRORS) for it in errors) for errors in survivors)
        is_sure = not ending.exits
        for need, is_certain in [*((it, True) for it in inner.certain), *((it, False) for it in inner.possible)]:
            need, is_passed = self._after_handlers(need, ends)
            if need:
                flow.need(need, is_certain and is_sure and not is_passed and not (need.is_late and is_risky))
            is_sure = is_sure and not is_passed
        inner.certain, inner.possible = [], {}
        if inner.can_continue:
            self.block(scope, orelse, inner)
        if survivors:
            flow.join(inner, *(end for _, _, end in ends))
        else:
            flow.follow(inner)
            for _, _, end in ends:
                flow.follow_optional(end)

    def _after_handlers(self, need, ends):
        """Returns what handlers leave of a need, or None, and whether a run may continue without the feature."""
        for errors, nodes, end in ends:
            catches = _catches(errors, need.error)
            if catches is False:
                continue
            if end.can_continue or end.exits:
                if catches and _is_import(need) and any(isinstance(it, (ast.Import, ast.ImportFrom)) for it in nodes):
                    # The handler imports another module. The need ends if that module exists.
                    need = need if end.certain or end.possible else None
                return need, True
            raised = end.raised if catches else ()
            need = need._replace(error=next(iter(raised)) if len(raised) == 1 else None)
            if catches:
                break
        return need, False

    # Calls and names.

    def visit_Call(self, scope, node, flow, is_awaited=False):
        values = self._names.values(scope, node.func)
        self._base(scope, node.func, flow)
        arguments = [*node.args, *node.keywords]
        referred = []
        match values, node.args:
            case ["hasattr"], [_, ast.Constant()]:
                arguments = []
            case ["getattr"], [module, ast.Constant(value=name), *others]:
                attributes = [f"{it}.{name}" for it in self._names.values(scope, module) if isinstance(it, str)]
                # With a default value, a missing attribute is no need.
                referred = [it for it in attributes if not others or it in unsupported.CALLS and self._names.has(it)]
                arguments = others
            case ["isinstance" | "issubclass"], [value, _]:
                arguments = [value]
        runs = values == ["asyncio.run"] or isinstance(node.func, ast.Attribute) and node.func.attr == "run_until_complete"
        for argument in arguments:
            if runs and isinstance(argument, ast.Call):
                self.visit_Call(scope, argument, flow, is_awaited=True)
            else:
                self._visit(scope, argument, flow)
        self._refer(scope, node, referred, flow)
        if len(values) == 1:
            self._run(scope, node, values[0], flow, is_awaited)
        else:
            parts = [Flow() for _ in values]
            for value, part in zip(values, parts):
                self._run(scope, node, value, part, is_awaited)
            flow.join(*parts, Flow())

    def visit_Await(self, scope, node, flow):
        if isinstance(node.value, ast.Call):
            self.visit_Call(scope, node.value, flow, is_awaited=True)
        else:
            self._visit(scope, node.value, flow)

    def _run(self, scope, node, value, flow, is_awaited):
        """Follows the call of one value."""
        if isinstance(value, Scope):
            self._run_skill_code(value, flow, is_awaited)
            return
        if value is None and isinstance(node.func, ast.Attribute):
            # The object is unknown: it may be a method of any of the skill's classes.
            methods = self._names.functions(node.func.attr)
            for method in methods[:MAX_METHODS]:
                flow.follow_optional(self.function(method), FUNCTION_ENDS)
            if len(methods) > MAX_METHODS:
                flow.follow_optional(ANYTHING, FUNCTION_ENDS)
        elif value in EXITS:
            _exit(node, flow)
        elif value in IMPORTERS and node.args and isinstance(node.args[0], ast.Constant):
            self._module(scope, node, str(node.args[0].value), flow)
        elif value in DYNAMIC:
            flow.need(Need(scope.source.path, node.lineno, value, UNKNOWN_REASON), False)
        elif value:
            constructor, _, method = value.partition("().")
            if constructor in unsupported.DEFERRED and method in unsupported.FAILING_METHODS:
                value, is_awaited = constructor, True
            if value in hosts.REQUESTS or value in hosts.OPENERS:
                self._request(scope, node, value, flow, is_awaited)
            elif value in unsupported.CALLS:
                # Making a coroutine or such an object does not fail.
                is_sure = is_awaited or not (value in unsupported.DEFERRED or value.startswith("asyncio."))
                flow.need(self._call_need(scope, node, value), is_sure)
            else:
                self._attribute(scope, node, value, flow, True)
        flow.fails = True

    def _request(self, scope, node, value, flow, is_awaited):
        """Follows a call that sends a request, or makes a client."""
        origins, is_said = self._hosts.of_call(scope, node, value)
        if self._granted.allows(origins, is_said):
            return
        rules = ", ".join(f'"{hosts.rule(it)}"' for it in origins) or '"https://HOST/*"'
        reason = f"the grant of this tool does not allow it; an operator can: `network = [{rules}]`"
        error = hosts.ERRORS.get(value.partition(".")[0])
        module, _, name = error.rpartition(".") if error else ("", "", "")
        error = getattr(self._baked.modules.get(module), name, OSError)
        is_sure = value in hosts.REQUESTS and (is_awaited or "AsyncClient" not in value)
        flow.need(Need(scope.source.path, node.lineno, value, reason, error, origins=tuple(origins)), is_sure)

    def _run_skill_code(self, value, flow, is_awaited):
        """Follows the call of a function or a class of the skill."""
        function = value
        if value.is_class():
            function = next((it for it in value.names.get("__init__", ()) if isinstance(it, Scope)), None)
        if function and not function.is_class():
            is_sure = function is value and function.is_plain() and function.is_later == is_awaited
            (flow.follow if is_sure else flow.follow_optional)(self.function(function), FUNCTION_ENDS)
        flow.fails = flow.fails or value.is_class()

    def visit_Name(self, scope, node, flow):
        """Follows a name or an attribute outside the position of a call's function."""
        self._base(scope, node, flow)
        if isinstance(node.ctx, ast.Load):
            values = self._names.values(scope, node)
            flow.fails = flow.fails or None in values and isinstance(node, ast.Attribute)
            self._refer(scope, node, values, flow)

    visit_Attribute = visit_Name

    def _base(self, scope, node, flow):
        """Follows the object of an attribute, unless it is a name."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            self._visit(scope, node, flow)

    def _refer(self, scope, node, values, flow):
        """Follows values that may be called later."""
        for value in values:
            if isinstance(value, Scope):
                if not value.is_class():
                    flow.follow_optional(self.function(value), FUNCTION_ENDS)
            elif value in unsupported.CALLS:
                flow.need(self._call_need(scope, node, value), False)
            elif value in DYNAMIC or value in UNSUPPORTED_MODULES:
                flow.need(Need(scope.source.path, node.lineno, value, UNKNOWN_REASON), False)
            elif value:
                # Some attributes of `sys` exist only at times.
                self._attribute(scope, node, value, flow, len(values) == 1 and not value.startswith("sys."))

    def _call_need(self, scope, node, value):
        """Returns the need of an unsupported call."""
        reason = unsupported.CALLS[value]
        if not self._names.has(value):
            error = AttributeError
        elif value.startswith(("subprocess.", "os.system", "os.popen", "asyncio.create_")):
            error = FileNotFoundError
        elif value.startswith("urllib.request."):
            error = urllib.error.URLError
        elif value.startswith("multiprocessing."):
            error = None
        else:
            error = {unsupported.NETWORK: OSError, unsupported.THREAD: RuntimeError}.get(reason)
        return Need(scope.source.path, node.lineno, value, reason, error)

    def _attribute(self, scope, node, value, flow, is_certain):
        """Adds a need for an attribute that its module does not have."""
        module, _, name = value.rpartition(".")
        if "(" in value or not self._baked.has(module) or self._baked.has(value) or self._names.has(value) or self._names.files(module):
            return
        is_certain = is_certain and not self._names.sets(value)
        flow.need(Need(scope.source.path, node.lineno, value, "this Python does not have it", AttributeError), is_certain)

    # Imports.

    def visit_Import(self, scope, node, flow):
        for name in node.names:
            self._module(scope, node, name.name, flow)

    def visit_ImportFrom(self, scope, node, flow):
        source, written_name = scope.source, "." * node.level + (node.module or "")
        if node.level and source.path == self._names.script:
            self._missing_module(scope, node, written_name, "a script that is run by its path is in no package", flow)
            return
        module = source.absolute(node)
        if not node.level and not self._module(scope, node, module, flow):
            return
        files = self._names.files(module)
        if node.level:
            if not files:
                self._missing_module(scope, node, written_name, "the skill does not have it", flow)
                return
            self._run_modules(files, flow)
        for name in node.names:
            full_name = f"{module}{'/' if node.level else '.'}{name.name}"
            if submodule := self._names.files(full_name):
                self._run_modules(submodule, flow)
            elif name.name == "*":
                continue
            elif files:
                if not self._defines(module, name.name):
                    self._missing_name(scope, node, f"{written_name}.{name.name}", f"{files[-1]} does not have it", flow)
            elif self._baked.has(module) and not self._baked.has(full_name) and not self._names.has(full_name):
                reason = unsupported.CALLS.get(full_name, "this Python does not have it")
                self._missing_name(scope, node, full_name, reason, flow)

    def _defines(self, module, name):
        """Returns whether a module of the skill may define a name."""
        source = self._names.loaded(module)
        if source is None:
            return False
        names = source.scope.names
        return name in names or bool(source.stars) or "__getattr__" in names or bool(source.mentioned & REFLECTION)

    def _missing_name(self, scope, node, name, reason, flow):
        """Adds a need for a name that the module of an import does not have."""
        flow.need(Need(scope.source.path, node.lineno, name, reason, ImportError), not self._names.sets(name))
        flow.fails = True

    def _module(self, scope, node, name, flow):
        """Follows the import of a module. Returns whether the module exists."""
        if files := self._names.files(name):
            self._run_modules(files, flow)
            return True
        if self._baked.has(name) or name in sys.builtin_module_names or self._names.has_elsewhere(name):
            return True
        reason = unsupported.MODULES.get(name.partition(".")[0], unsupported.OTHER_MODULE)
        self._missing_module(scope, node, name, reason, flow)
        return False

    def _missing_module(self, scope, node, name, reason, flow):
        """Adds a need for a missing module."""
        top = name if name.startswith(".") else name.partition(".")[0]
        # A script that changes `sys.path` may find the module in a folder that only a run knows.
        is_certain = not self._names.has_other_folders or top in unsupported.MODULES
        is_certain = is_certain and not self._names.sets(f"sys.modules.{top}")
        flow.need(Need(scope.source.path, node.lineno, f"import {top}", reason, ModuleNotFoundError), is_certain)
        flow.fails = True

    def _run_modules(self, paths, flow):
        """Follows the modules of the skill that an import runs."""
        for path in paths:
            if not path.endswith(".py"):
                continue
            try:
                source = self._names.source(path)
                if source.flow is None:
                    # In a circular import, the module is already being followed.
                    source.flow = Flow()
                    source.flow = self.part(source.scope, source.tree.body)
                flow.follow(source.flow)
                continue
            except SyntaxError as error:
                need = Need(path, error.lineno or 1, PYTHON, error.msg, SyntaxError)
            except (OSError, ValueError) as error:
                need = Need(path, None, "unreadable", str(error))
            flow.need(need)
            flow.fails = True


VISITORS = {getattr(ast, name[6:]): visit for name, visit in vars(Follower).items() if name.startswith("visit_")}


def _exit(node, flow):
    """Adds the end of a script by a call such as `sys.exit`."""
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
    flow.can_continue = False


def _is_import(need):
    return need.error is not None and issubclass(need.error, ImportError)


def _catches(errors, error):
    """Returns whether a handler of `errors` catches `error`, or None if that is unknown."""
    if BaseException in errors:
        return True
    if error is None:
        return False if all(it is KeyboardInterrupt for it in errors) else None
    if any(it and issubclass(error, it) for it in errors):
        return True
    return None if any(it is None or issubclass(it, error) for it in errors) else False
