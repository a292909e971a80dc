"""The verdict on a script that has not run, by Python's own parser: what it imports and calls, in the
order in which a run would come to it. What every run comes to, before it can end well, decides. What a
run may come to, and what cannot be followed, leaves the verdict open.

| module | holds |
|---|---|
| `files` | the files of the skill, and those that an import runs |
| `source` | one parsed file, and the names that it binds |
| `names` | what names stand for, in a script and all that it imports |
| `follow` | statements, calls and imports, in the order of a run |
| `flow` | how runs of a part go on, and what they need |
"""

import ast
import gc

from .files import Files
from .flow import MOST_FINDINGS, Flow, Need
from .follow import PYTHON, Follower
from .names import Names

WILL_RUN, WILL_NOT, OPEN = "will run", "will not", "cannot be told"


class Judge:
    """Judges the scripts of one skill."""

    def __init__(self, baked, mount):
        self._baked = baked
        self._files = Files(baked, mount)

    def scripts(self, most):
        """Returns the paths of the skill's scripts, and whether there are more."""
        return self._files.scripts(most)

    def judge(self, script):
        """Returns the record of one script."""
        docstring, flow = "", Flow()
        # A collection would visit each node of the syntax trees, and free none.
        gc.disable()
        try:
            names = Names(self._baked, self._files, script)
            source = names.source(script)
            docstring = (ast.get_docstring(source.tree) or "").strip().partition("\n")[0][:200]
            _follow(names, source, flow)
        except SyntaxError as error:
            flow.surely.append(Need(script, error.lineno or 1, PYTHON, error.msg))
        except (OSError, ValueError) as error:
            flow.surely.append(Need(script, None, "unreadable", str(error)))
        except (MemoryError, RecursionError):
            flow.maybe[Need(script, None, "nested too deeply to be judged", "")] = None
        except Exception as error:
            # A script that nobody can judge, such as one in an encoding that is none, ends no other verdict.
            flow.maybe[Need(script, None, "cannot be judged", f"{type(error).__name__}: {error}")] = None
        finally:
            gc.enable()
        return {
            "script": script,
            "description": docstring,
            "verdict": WILL_NOT if flow.surely else OPEN if flow.maybe else WILL_RUN,
            "reasons": _reasons(flow.surely or flow.maybe),
        }


def _follow(names, source, flow):
    """Follows a script, then what its runs may come to."""
    follower = Follower(names)
    follower.block(source.scope, source.tree.body, flow)
    while names.later:
        scope, nodes = names.later.pop()
        if nodes is not None:
            flow.perhaps(follower.part(scope, nodes))
        elif scope.flow is None:
            flow.perhaps(follower.function(scope))


def _reasons(needs):
    """Returns the first needs, each of a file once."""
    told = {(need.path, need.what): need for need in [*needs][::-1]}
    return [
        {"path": need.path, "line": need.line, "needs": need.what, "instead": need.why}
        for need in [*told.values()][::-1][:MOST_FINDINGS]
    ]
