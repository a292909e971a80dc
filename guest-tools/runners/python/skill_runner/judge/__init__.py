"""Judges whether a script will run, without running it. Parses the script with Python's own parser and
follows its imports and calls, in the order of a run.

A script will not run if every run reaches an unsupported feature before it can end well. The verdict is
open if a run may reach one, or if it reaches code that cannot be followed.

| module | holds |
|---|---|
| `files` | the files of the skill, and the files that an import runs |
| `source` | one parsed file, and the names that it binds |
| `names` | the meanings of names, in a script and the modules that it imports |
| `follow` | the visit of statements, calls and imports, in the order of a run |
| `flow` | the ways in which a part of a script can end, and its needs |
"""

import ast
import gc

from .files import Files
from .flow import MAX_FINDINGS, Flow, Need
from .follow import PYTHON, Follower
from .names import Names

WILL_RUN, WILL_NOT, OPEN = "will run", "will not", "cannot be told"


class Judge:
    """Judges the scripts of one skill."""

    def __init__(self, baked, mount):
        self._baked = baked
        self._files = Files(baked, mount)

    def scripts(self, limit):
        """Returns the paths of at most `limit` scripts of the skill, and whether there are more."""
        return self._files.scripts(limit)

    def judge(self, script):
        """Returns the record of one script."""
        docstring, flow = "", Flow()
        # The garbage collector would visit each node of the syntax trees and free none.
        gc.disable()
        try:
            names = Names(self._baked, self._files, script)
            source = names.source(script)
            docstring = (ast.get_docstring(source.tree) or "").strip().partition("\n")[0][:200]
            _follow(names, source, flow)
        except SyntaxError as error:
            flow.certain.append(Need(script, error.lineno or 1, PYTHON, error.msg))
        except (OSError, ValueError) as error:
            flow.certain.append(Need(script, None, "unreadable", str(error)))
        except (MemoryError, RecursionError):
            flow.possible[Need(script, None, "nested too deeply to be judged", "")] = None
        except Exception as error:
            # A script that cannot be judged, for example because its encoding is unknown, must not prevent
            # the verdicts on the others.
            flow.possible[Need(script, None, "cannot be judged", f"{type(error).__name__}: {error}")] = None
        finally:
            gc.enable()
        return {
            "script": script,
            "description": docstring,
            "verdict": WILL_NOT if flow.certain else OPEN if flow.possible else WILL_RUN,
            "reasons": _reasons(flow.certain or flow.possible),
        }


def _follow(names, source, flow):
    """Follows a script, then the code that its runs may reach."""
    follower = Follower(names)
    follower.block(source.scope, source.tree.body, flow)
    while names.later:
        scope, nodes = names.later.pop()
        if nodes is not None:
            flow.follow_optional(follower.part(scope, nodes))
        elif scope.flow is None:
            flow.follow_optional(follower.function(scope))


def _reasons(needs):
    """Returns the first needs, without repetitions in a file."""
    # Go backwards, so that the first of equal needs replaces the others.
    unique = {(need.path, need.feature): need for need in [*needs][::-1]}
    return [
        {"path": need.path, "line": need.line, "needs": need.feature, "instead": need.reason}
        for need in [*unique.values()][::-1][:MAX_FINDINGS]
    ]
