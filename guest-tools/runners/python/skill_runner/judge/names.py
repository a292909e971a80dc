"""The meanings of names, and the values of conditions, in a script and all files that it imports."""

import ast
import builtins
import sys

from .. import unsupported
from .source import MAX_MEANINGS, Scope, last_name

# The maximum number of assignments to follow for a name, and of `from … import *` to search. Guards against: a script
# that takes too long.
MAX_LINKS = 3
MAX_STARS = 8
# The names with which a script can get a function by a computed name.
REFLECTION = {"globals", "locals", "vars", "eval", "exec", "dir", "getattr()", "__dict__", "getmembers", "methodcaller", "attrgetter"}


class SkillException(Exception):
    """The placeholder for exceptions that a skill defines."""


class Names:
    """The names of one script, and of the files of the skill that it imports."""

    def __init__(self, baked, files, script):
        self.baked = baked
        self.script = script
        self._files = files
        self._folder = script.rpartition("/")[0]
        self._sources = {}
        # The functions by name, and those whose name is not mentioned yet.
        self._functions, self._waiting = {}, {}
        # The code to follow at the end, as code that may run: scopes of mentioned functions, and nodes with their scope.
        self.later = []
        self.mentioned = set()
        # The attributes that the script sets, by full name: `MODULE.` for any of a module, `.NAME` of an unknown object.
        self._changed = set()
        # True if the script searches other folders for modules, too.
        self.has_other_folders = False

    # Files of the skill.

    def source(self, path):
        """Returns a parsed file of the skill, and adds its names to those of the script."""
        if path not in self._sources:
            source = self._sources[path] = self._files.source(path)
            self.has_other_folders = self.has_other_folders or source.changes_path
            for function in source.functions:
                self._functions.setdefault(function.node.name, []).append(function)
            called = [(function.node.name, function) for function in source.functions] + source.called
            for name, function in called:
                self._waiting.setdefault(name, []).append(function)
            self.mentioned |= source.mentioned
            names = {name for name, _ in called}
            names = names & self.mentioned | source.mentioned | {name for name in names if name[:2] == "__"}
            for name in sorted(self._waiting if self.mentioned & REFLECTION else names & self._waiting.keys()):
                self.later += [(function, None) for function in self._waiting.pop(name)]
            for scope, target, name in source.changes:
                for value in [target] if isinstance(target, str) else self.values(scope, target):
                    if isinstance(value, str) or value is None and name:
                        self._changed.add(f"{value or ''}.{name or ''}")
        return self._sources[path]

    def files(self, name):
        """Returns the files of the skill that an import of `name` runs."""
        return self._files.imported(self._folder, name)

    def has_elsewhere(self, name):
        """Returns whether the script may find a module of this name in another folder of the skill."""
        return self.has_other_folders and self._files.has_anywhere(name)

    def loaded(self, module):
        """Returns the last file of a module of the skill, if it has been read."""
        files = self.files(module)
        return self._sources.get(files[-1]) if files else None

    def functions(self, name):
        """Returns the skill's functions and methods of this name."""
        return self._functions.get(name, ())

    # Meanings of names.

    def has(self, value):
        """Returns whether a library module has this name. `value` is the full name."""
        module, _, name = value.rpartition(".")
        return self.baked.has(module) and hasattr(self.baked.modules[module], name)

    def sets(self, value):
        """Returns whether the script may set an attribute of a module. `value` is its full name."""
        full_name = value.partition("()")[0]
        module, _, name = full_name.rpartition(".")
        if not module or not self._changed:
            return False
        changes = {value, full_name, f"{module}."}
        # Attributes of unknown objects often have the name of a supported feature.
        if full_name in unsupported.CALLS or not self.has(full_name):
            changes.add(f".{name}")
        return not self._changed.isdisjoint(changes)

    def values(self, scope, node, links=MAX_LINKS):
        """Returns the possible meanings of an expression, or `[None]` if it is not a name. See `Scope`."""
        end = ""
        while not isinstance(node, ast.Name):
            match node:
                case ast.Attribute(value=value, attr=name):
                    end = f".{name}{end}"
                case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name))]):
                    end = f".{name}{end}"
                case ast.Call(args=[ast.Constant(value=str(name))]) if last_name(node.func) in ("import_module", "__import__"):
                    return self._member(name + end, links)
                case ast.Call(func=value) if "()" not in end:
                    end = "()" + end
                case _:
                    return [None]
            node = value
        return self._named(scope, node.id, end, links)

    def _named(self, scope, name, end, links):
        meanings = scope.find(name)
        if meanings is None:
            meanings = self._stars(scope.source, name)
        values = []
        for meaning in meanings:
            resolved = [meaning]
            if isinstance(meaning, tuple):
                resolved = self.values(*meaning, links - 1) if links else [None]
            for value in resolved:
                if isinstance(value, str):
                    values += self._member(value + end, links)
                else:
                    values.append(None if end else value)
        return values if len(values) < 2 else list(dict.fromkeys(values))[:MAX_MEANINGS]

    def _stars(self, source, name):
        for module in source.stars[:MAX_STARS]:
            loaded = self.loaded(module)
            if loaded and name in loaded.scope.names or not loaded and self.has(f"{module}.{name}"):
                return [f"{module}.{name}"]
        return [name]

    def _member(self, value, links):
        """Returns the meanings of a full name in a module of the skill. Returns other full names unchanged.

        The last meaning is None if the script may set it."""
        module, _, name = value.rpartition(".")
        source = self.loaded(module)
        if source is None or not links:
            values = [value]
        elif name in source.scope.names or source.stars:
            values = self._named(source.scope, name, "", links - 1)
        else:
            return [None]
        return [*values, None] if self.sets(value) else values

    def error(self, scope, node):
        """Returns the exception that an expression names, or None if it is unknown."""
        match self.values(scope, node) if node else ():
            case [Scope() as skill_class] if skill_class.is_class():
                return SkillException
            case [str(value)]:
                module, _, name = value.rpartition(".")
                error = getattr(self.baked.modules.get(module) if module else builtins, name, None)
                return error if isinstance(error, type) and issubclass(error, BaseException) else None
        return None

    # Conditions.

    def condition(self, scope, test):
        """Returns the value of a condition in the sandbox, or None if it is unknown."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                operand = self.condition(scope, test.operand)
                return None if operand is None else not operand
            case ast.Name() | ast.Attribute():
                return False if self.values(scope, test) in (["typing.TYPE_CHECKING"], ["TYPE_CHECKING"]) else None
            case ast.Call(func=ast.Name(id="hasattr"), args=[module, ast.Constant(value=str(name))]):
                modules = self.values(scope, module)
                if not (len(modules) == 1 and self.baked.has(modules[0])) or self.sets(f"{modules[0]}.{name}"):
                    return None
                return self.baked.has(f"{modules[0]}.{name}") or self.has(f"{modules[0]}.{name}")
            case ast.Compare(ops=[operator], comparators=[other]):
                names = self.values(scope, test.left)
                return self._comparison(scope, names[0], operator, other) if None not in names else None
        return None

    def _comparison(self, scope, name, operator, other):
        values = {"__name__": "__main__", "os.name": "posix", "sys.platform": "wasi"}
        if name in values and isinstance(other, ast.Constant):
            if name == "__name__" and isinstance(operator, ast.Eq):
                return (scope.source.path == self.script) == (other.value == "__main__")
            if isinstance(operator, (ast.Eq, ast.NotEq)):
                return (values[name] == other.value) == isinstance(operator, ast.Eq)
        if name == "sys.version_info" and isinstance(other, ast.Tuple):
            version = tuple(it.value for it in other.elts if isinstance(it, ast.Constant))
            if isinstance(operator, (ast.GtE, ast.Gt)):
                return sys.version_info[: len(version)] >= version
            if isinstance(operator, (ast.Lt, ast.LtE)):
                return sys.version_info[: len(version)] < version
        return None
