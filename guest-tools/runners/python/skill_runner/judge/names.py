"""What names and conditions of a script stand for, in all files that it imports."""

import ast
import builtins
import sys

from .source import MOST_MEANINGS, Scope, last_name

# Names that stand for a name, and modules that all names are imported from, that are followed. Guard against: a
# script that takes the time.
MOST_LINKS = 3
MOST_STARS = 8
# Ways to functions by names that the script makes.
REFLECTS = {"globals", "locals", "vars", "eval", "exec", "dir", "getattr()", "__dict__", "getmembers", "methodcaller", "attrgetter"}


class Own(Exception):
    """Stands for the exceptions that a skill defines."""


class Names:
    """The names of one script, and of the files of the skill that it imports."""

    def __init__(self, baked, files, script):
        self.baked = baked
        self.script = script
        self._files = files
        self._folder = script.rpartition("/")[0]
        self._sources = {}
        # Functions by their names, and those that nothing mentions yet.
        self._functions, self._waiting = {}, {}
        # What is followed at last, as what may run: functions that something mentions, and nodes with their scope.
        self.later = []
        self.mentioned = set()
        # Whether the script looks for modules in other folders, too.
        self.elsewhere = False

    # Files of the skill.

    def source(self, path):
        """Returns a file of the skill, which it adds to those that the script imports."""
        if path not in self._sources:
            source = self._sources[path] = self._files.source(path)
            self.elsewhere = self.elsewhere or source.searches
            for function in source.functions:
                self._functions.setdefault(function.node.name, []).append(function)
            called = [(function.node.name, function) for function in source.functions] + source.called
            for name, function in called:
                self._waiting.setdefault(name, []).append(function)
            self.mentioned |= source.mentioned
            names = {name for name, _ in called}
            names = names & self.mentioned | source.mentioned | {name for name in names if name[:2] == "__"}
            for name in sorted(self._waiting if self.mentioned & REFLECTS else names & self._waiting.keys()):
                self.later += [(function, None) for function in self._waiting.pop(name)]
        return self._sources[path]

    def files(self, name):
        """Returns the files of the skill that an import of this name runs."""
        return self._files.imported(self._folder, name)

    def anywhere(self, name):
        """Returns whether the script may find a module of that name in some folder."""
        return self.elsewhere and self._files.anywhere(name)

    def loaded(self, module):
        """Returns the last file of a module of the skill, if it has been read."""
        files = self.files(module)
        return self._sources.get(files[-1]) if files else None

    def functions(self, name):
        """Returns the functions and methods of a name."""
        return self._functions.get(name, ())

    # Meanings of names.

    def has(self, value):
        """Returns whether a module of this Python has a name."""
        module, _, name = value.rpartition(".")
        return self.baked.has(module) and hasattr(self.baked.modules[module], name)

    def sets(self, name):
        """Returns whether the script may set an attribute of a module."""
        return "=" + name in self.mentioned

    def values(self, scope, node, links=MOST_LINKS):
        """Returns what an expression may stand for, if it is a name: see `Scope`."""
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
            found = [meaning]
            if isinstance(meaning, tuple):
                found = self.values(*meaning, links - 1) if links else [None]
            for value in found:
                if isinstance(value, str):
                    values += self._member(value + end, links)
                else:
                    values.append(None if end else value)
        return values if len(values) < 2 else list(dict.fromkeys(values))[:MOST_MEANINGS]

    def _stars(self, source, name):
        for module in source.stars[:MOST_STARS]:
            own = self.loaded(module)
            if own and name in own.scope.names or not own and self.has(f"{module}.{name}"):
                return [f"{module}.{name}"]
        return [name]

    def _member(self, value, links):
        """Returns what a full name stands for, if it is one of a module of the skill."""
        module, _, name = value.rpartition(".")
        source = self.loaded(module)
        if source is None or not links:
            return [value]
        if name in source.scope.names or source.stars:
            return self._named(source.scope, name, "", links - 1)
        return [None]

    def error(self, scope, node):
        """Returns the exception that an expression names; None if that cannot be told."""
        match self.values(scope, node) if node else ():
            case [Scope() as own] if own.is_class():
                return Own
            case [str(value)]:
                module, _, name = value.rpartition(".")
                found = getattr(self.baked.modules.get(module) if module else builtins, name, None)
                return found if isinstance(found, type) and issubclass(found, BaseException) else None
        return None

    # Conditions.

    def known(self, scope, test):
        """Returns what a condition is in the sandbox; None if that cannot be told."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                known = self.known(scope, test.operand)
                return None if known is None else not known
            case ast.Name() | ast.Attribute():
                return False if self.values(scope, test) in (["typing.TYPE_CHECKING"], ["TYPE_CHECKING"]) else None
            case ast.Call(func=ast.Name(id="hasattr"), args=[module, ast.Constant(value=str(name))]):
                found = self.values(scope, module)
                if not (len(found) == 1 and self.baked.has(found[0])) or self.sets(name):
                    return None
                return self.baked.has(f"{found[0]}.{name}") or self.has(f"{found[0]}.{name}")
            case ast.Compare(ops=[operator], comparators=[other]):
                return self._compared(scope, self.values(scope, test.left)[0], operator, other)
        return None

    def _compared(self, scope, name, operator, other):
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
