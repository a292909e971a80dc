"""A parsed file of the skill, and the names that it binds. Nothing is followed here."""

import ast
import io
import keyword
import tokenize

# The largest file that is read. Guards against: a script that takes the parser all memory.
LARGEST = 4 << 20
# Brackets within each other, and levels of a syntax tree, that the parser gets. Guards against: a
# script that takes the parser's stack, which would end the verdicts on all scripts.
MOST_BRACKETS = 60
MOST_LEVELS = 400
# Meanings of a name that are followed. Guards against: a script that takes the time.
MOST_MEANINGS = 4
# Decorators after which a call of the function runs it, and nothing else does.
PLAIN = {"staticmethod", "classmethod", "property", "abstractmethod", "cache", "lru_cache", "cached_property", "override", "dataclass"}
# Fields of syntax nodes that have no code.
NO_CODE = {"ctx", "op", "ops", "id", "attr", "kind", "type_comment", "level", "is_async", "conversion", "simple"}
# The other fields of each type of node.
FIELDS = {ast.Constant: []}


def children(node):
    """Returns the nodes below a node, in order, without operators and contexts."""
    kind = type(node)
    fields = FIELDS.get(kind)
    if fields is None:
        fields = FIELDS[kind] = [field for field in node._fields if field not in NO_CODE]
    found = []
    for field in fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            found += [it for it in value if isinstance(it, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def last_name(node):
    """Returns the last part of a name."""
    return getattr(node, "attr", getattr(node, "id", None))


def is_too_deep(text):
    """Returns whether a source takes more of the parser's stack than it may. Counts the levels of the syntax
    tree from above: each operator of an expression may make one, and so may each `elif` of a statement."""
    # The operators of each bracket that is open, and the `elif`s of each block that is open.
    operators, branches = [0], [0]
    # Their sum.
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
            if levels > MOST_LEVELS or len(operators) > MOST_BRACKETS + 1:
                return True
    except (SyntaxError, IndexError, tokenize.TokenError):
        # The parser finds it again, and says where.
        pass
    return False


class Scope:
    """The names that a module, a function or a class binds, and their meanings: the full name of something
    imported, a function, a class, an expression with its scope, or None for what cannot be followed."""

    def __init__(self, source, parent=None, node=None):
        self.source, self.node = source, node
        # The names of a class are not those of its methods.
        self.parent = parent.parent if parent and parent.is_class() else parent
        self.names = {}
        self.elsewhere = {}
        # How its function runs, if it is one.
        self.flow = None
        self.is_later = isinstance(node, ast.AsyncFunctionDef)

    def bind(self, name, meaning):
        """Adds a meaning of a name."""
        meanings = self.elsewhere.get(name, self).names.setdefault(name, [])
        if len(meanings) < MOST_MEANINGS and meaning not in meanings:
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
        """Returns the scope of a class that this one defines."""
        found = self.elsewhere.get(node.name, self).names.get(node.name, ())
        return next((it for it in found if isinstance(it, Scope) and it.node is node), self)

    def is_class(self):
        return isinstance(self.node, ast.ClassDef)

    def is_plain(self):
        """Returns whether only a call by its name runs a function."""
        return all(last_name(it.func if isinstance(it, ast.Call) else it) in PLAIN for it in self.node.decorator_list)


class Source:
    """A file of the skill that has been parsed."""

    def __init__(self, path, text):
        if len(text) > LARGEST:
            raise ValueError(f"larger than {LARGEST} bytes")
        if is_too_deep(text):
            raise RecursionError
        self.path = path
        self.size = len(text)
        self.tree = ast.parse(text)
        self.scope = Scope(self)
        # How an import of it runs.
        self.flow = None
        # The modules that all names are imported from, the functions, and those that a library may call.
        self.stars, self.functions, self.called = [], [], []
        # The names that it mentions, and `=NAME` for an attribute that it sets.
        self.mentioned = set()
        # Whether it looks for modules in other folders, too.
        self.searches = False
        # Names whose meaning is bound already. By itself, such a name would have another one.
        self._bound = set()
        nodes = [(self.tree, self.scope)]
        while nodes:
            node, scope = nodes.pop()
            bind = BINDERS.get(type(node))
            inner = bind and bind(self, node, scope) or scope
            nodes += [(child, inner) for child in reversed(children(node))]

    def forget(self):
        """Forgets what was followed."""
        self.flow = None
        for function in self.functions:
            function.flow = None

    def absolute(self, node):
        """Returns the module of a `from` import: with a slash in front, if it is a path in the skill."""
        module = node.module or ""
        if not node.level:
            return module
        folder = self.path.split("/")[:-node.level]
        return "/" + "/".join([*folder, *(module.split(".") if module else [])])

    # Each function notes the names of a node. For a function or a class it returns the scope of what is in it.

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
            self.searches = self.searches or module == "sys" and name.name == "path"

    def bind_Global(self, node, scope):
        for name in node.names:
            scope.elsewhere[name] = self.scope if isinstance(node, ast.Global) else scope.parent or self.scope

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
            self.searches = True
        if not isinstance(node.ctx, ast.Load):
            # Not what the module has by itself.
            self.mentioned.add("=" + node.attr)

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
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            match node.args:
                case [_, ast.Constant(value=str(name)), *_]:
                    self.mentioned.add(name)
                case _:
                    self.mentioned.add("getattr()")


BINDERS = {getattr(ast, name[5:]): bind for name, bind in vars(Source).items() if name.startswith("bind_")}
