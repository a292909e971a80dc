"""A parsed file of the skill, and the names that it binds."""

import ast
import io
import keyword
import tokenize

# The maximum size of a file to parse. Guards against: a script for which the parser needs all memory.
MAX_SOURCE_BYTES = 4 << 20
# The maximum numbers of nested brackets, and of levels of a syntax tree, to parse. Guards against: a script
# that overflows the parser's stack, which would prevent the verdicts on all scripts.
MAX_BRACKETS = 60
MAX_LEVELS = 400
# The maximum number of meanings of a name to follow. Guards against: a script that takes too long.
MAX_MEANINGS = 4
# The maximum number of bytes of a file in which to look for the names of packages.
MAX_HEAD_BYTES = 8 << 10
# The maximum number of URLs of a file to keep.
MAX_URLS = 50
# The decorators that do not change when a function runs: only a call by its name runs it.
PLAIN_DECORATORS = {"staticmethod", "classmethod", "property", "abstractmethod", "cache", "lru_cache", "cached_property", "override", "dataclass"}
# The fields of syntax nodes that have no code.
FIELDS_WITHOUT_CODE = {"ctx", "op", "ops", "id", "attr", "kind", "type_comment", "level", "is_async", "conversion", "simple"}
# The other fields, by type of node.
FIELDS = {ast.Constant: []}


def children(node):
    """Returns the child nodes of a node, in order, without operators and contexts."""
    kind = type(node)
    fields = FIELDS.get(kind)
    if fields is None:
        fields = FIELDS[kind] = [field for field in node._fields if field not in FIELDS_WITHOUT_CODE]
    nodes = []
    for field in fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            nodes += [it for it in value if isinstance(it, ast.AST)]
        elif isinstance(value, ast.AST):
            nodes.append(value)
    return nodes


def last_name(node):
    """Returns the last part of a name."""
    return getattr(node, "attr", getattr(node, "id", None))


def is_too_deep(text):
    """Returns whether a source is nested too deeply for the parser's stack. Computes an upper bound for the levels
    of the syntax tree: each operator of an expression may add a level, and so may each `elif` of a statement."""
    # The number of operators in each open bracket, and of `elif`s in each open block.
    operators, branches = [0], [0]
    # The sum of both.
    levels = 0
    try:
        for kind, string, _, _, _ in tokenize.tokenize(io.BytesIO(text).readline):
            if kind == tokenize.OP:
                if string in "([{":
                    levels += 1
                    operators[-1] += 1
                    operators.append(0)
                elif string in ")]}":
                    levels -= operators.pop()
                elif string in ",;":
                    levels -= operators[-1]
                    operators[-1] = 0
                else:
                    levels += 1
                    operators[-1] += 1
            elif kind == tokenize.NAME:
                if not keyword.iskeyword(string):
                    continue
                if string == "elif":
                    levels += 1
                    branches[-1] += 1
                elif string == "if" and operators == [0]:
                    levels -= branches[-1] - (branches[-1] and 1)
                    branches[-1] = branches[-1] and 1
                else:
                    levels += 1
                    operators[-1] += 1
            elif kind == tokenize.NEWLINE:
                levels -= sum(operators)
                operators = [0]
            elif kind == tokenize.INDENT:
                levels += 1
                branches.append(1)
            elif kind == tokenize.DEDENT:
                levels -= branches.pop()
            if levels > MAX_LEVELS or len(operators) > MAX_BRACKETS + 1:
                return True
    except (SyntaxError, IndexError, tokenize.TokenError):
        # The parser will report the error with its line.
        pass
    return False


class Scope:
    """The names that a module, a function or a class binds, and their meanings.

    A meaning is the full name of an import, the scope of a function or a class, a pair of a scope and an
    expression, or None if it cannot be followed."""

    def __init__(self, source, parent=None, node=None):
        self.source, self.node = source, node
        # Methods do not see the names of their class.
        self.parent = parent.parent if parent and parent.is_class() else parent
        self.names = {}
        # The scopes of the names that `global` and `nonlocal` declare.
        self.declared = {}
        # The flow of the function, once it has been followed.
        self.flow = None
        self.is_later = isinstance(node, ast.AsyncFunctionDef)

    def bind(self, name, meaning):
        """Adds a meaning of a name."""
        meanings = self.declared.get(name, self).names.setdefault(name, [])
        if len(meanings) < MAX_MEANINGS and meaning not in meanings:
            meanings.append(meaning)

    def find(self, name):
        """Returns the meanings of a name, or None if nothing binds it."""
        scope = self
        while scope:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def of_class(self, node):
        """Returns the scope of a class that this scope defines."""
        meanings = self.declared.get(node.name, self).names.get(node.name, ())
        return next((it for it in meanings if isinstance(it, Scope) and it.node is node), self)

    def is_class(self):
        return isinstance(self.node, ast.ClassDef)

    def is_plain(self):
        """Returns whether only a call by its name runs the function."""
        return all(last_name(it.func if isinstance(it, ast.Call) else it) in PLAIN_DECORATORS for it in self.node.decorator_list)


class Source:
    """A parsed file of the skill."""

    def __init__(self, path, text):
        if len(text) > MAX_SOURCE_BYTES:
            raise ValueError(f"larger than {MAX_SOURCE_BYTES} bytes")
        if is_too_deep(text):
            raise RecursionError
        self.path = path
        self.size = len(text)
        # The beginning, which may name packages.
        self.head = text[:MAX_HEAD_BYTES].decode("utf-8", "replace").replace("\r\n", "\n")
        self.tree = ast.parse(text)
        self.scope = Scope(self)
        # The flow of its import, once it has been followed.
        self.flow = None
        # The modules of `from … import *`, the functions, and the functions that a library may call.
        self.stars, self.functions, self.called = [], [], []
        # The names that the file mentions.
        self.mentioned = set()
        # The attributes that the file sets or deletes: the scope, the object or its full name, and the attribute's
        # name, or None if it may be any.
        self.changes = []
        # The texts that begin as a URL.
        self.urls = []
        # True if the file uses `sys.path`, so that the script may search other folders for modules.
        self.changes_path = False
        # The name nodes that already have a meaning, so that `bind_Name` does not add an unknown one.
        self._bound = set()
        nodes = [(self.tree, self.scope)]
        while nodes:
            node, scope = nodes.pop()
            bind = BINDERS.get(type(node))
            inner = bind and bind(self, node, scope) or scope
            nodes += [(child, inner) for child in reversed(children(node))]

    def reset(self):
        """Removes the flows, for the verdict on another script."""
        self.flow = None
        for function in self.functions:
            function.flow = None

    def absolute(self, node):
        """Returns the module of a `from` import. A relative import gives a path in the skill, with a leading slash."""
        module = node.module or ""
        if not node.level:
            return module
        folder = self.path.split("/")[:-node.level]
        return "/" + "/".join([*folder, *(module.split(".") if module else [])])

    # Each of these methods records the names of a node. For a function or a class, it returns the scope of the body.

    def bind_FunctionDef(self, node, scope):
        inner = Scope(self, scope, node)
        scope.bind(node.name, inner)
        if not inner.is_class():
            self.functions.append(inner)
            is_method = scope.is_class() and (scope.node.bases or scope.node.keywords or not scope.is_plain())
            if is_method or not inner.is_plain():
                self.called.append((scope.node.name if is_method else node.name, inner))
        return inner

    bind_AsyncFunctionDef = bind_ClassDef = bind_FunctionDef

    def bind_Import(self, node, scope):
        for name in node.names:
            top = name.name.partition(".")[0]
            scope.bind(name.asname or top, name.name if name.asname else top)

    def bind_ImportFrom(self, node, scope):
        module = self.absolute(node)
        dot = "/" if node.level and not node.module else "."
        for name in node.names:
            if name.name == "*":
                self.stars.append(module)
            else:
                scope.bind(name.asname or name.name, f"{module}{dot}{name.name}")
            self.changes_path = self.changes_path or module == "sys" and name.name == "path"

    def bind_Global(self, node, scope):
        for name in node.names:
            scope.declared[name] = self.scope if isinstance(node, ast.Global) else scope.parent or self.scope

    bind_Nonlocal = bind_Global

    def bind_Assign(self, node, scope):
        if len(node.targets) == 1:
            self._bind_value(node.targets[0], node.value, scope)

    def bind_withitem(self, node, scope):
        self._bind_value(node.optional_vars, node.context_expr, scope)

    def _bind_value(self, target, value, scope):
        if isinstance(target, ast.Name):
            scope.bind(target.id, (scope, value))
            self._bound.add(target)

    def bind_Name(self, node, scope):
        self.mentioned.add(node.id)
        if not isinstance(node.ctx, ast.Load) and node not in self._bound:
            scope.bind(node.id, None)

    def bind_Attribute(self, node, scope):
        self.mentioned.add(node.attr)
        if node.attr == "path" and isinstance(node.value, ast.Name) and node.value.id == "sys":
            self.changes_path = True
        if node.attr == "__dict__":
            self.changes.append((scope, node.value, None))
        # `self` and `cls` are the skill's own.
        if not isinstance(node.ctx, ast.Load) and getattr(node.value, "id", "") not in ("self", "cls"):
            self.changes.append((scope, node.value, node.attr))

    def bind_Subscript(self, node, scope):
        # An entry of `sys.modules` is a module that an import gets.
        if not isinstance(node.ctx, ast.Load) and last_name(node.value) == "modules":
            name = getattr(node.slice, "value", None)
            self.changes.append((scope, node.value, name if isinstance(name, str) else None))

    def bind_Constant(self, node, scope):
        if isinstance(node.value, str) and node.value.startswith(("http://", "https://")) and len(self.urls) < MAX_URLS:
            self.urls.append(node.value)

    def bind_alias(self, node, scope):
        self.mentioned.add(node.name)

    def bind_arg(self, node, scope):
        scope.bind(node.arg, None)

    def bind_ExceptHandler(self, node, scope):
        if node.name:
            scope.bind(node.name, None)

    bind_MatchAs = bind_MatchStar = bind_ExceptHandler

    def bind_MatchMapping(self, node, scope):
        if node.rest:
            scope.bind(node.rest, None)

    def bind_Yield(self, node, scope):
        scope.is_later = True

    bind_YieldFrom = bind_Yield

    def bind_Call(self, node, scope):
        match last_name(node.func), node.args:
            # `object` is `unittest.mock.patch.object`.
            case "setattr" | "delattr" | "object", [target, ast.Constant(value=str(name)), *_]:
                self.changes.append((scope, target, name))
            case "setattr" | "delattr" | "vars", [target, *_]:
                self.changes.append((scope, target, None))
            case "patch", [ast.Constant(value=str(full_name)), *_]:
                target, _, name = full_name.rpartition(".")
                self.changes.append((scope, target, name))
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            match node.args:
                case [_, ast.Constant(value=str(name)), *_]:
                    self.mentioned.add(name)
                case _:
                    self.mentioned.add("getattr()")


BINDERS = {getattr(ast, name[5:]): bind for name, bind in vars(Source).items() if name.startswith("bind_")}
