"""Judges whether a script will run, without running it. Parses the script with Python's own parser and
follows its imports and calls, in the order of a run.

A script will not run if every run reaches an unsupported feature before it can end well. The verdict is
open if a run may reach one, or if it reaches code that cannot be followed.

| module | holds |
|---|---|
| `files` | the files of the skill, and the files that an import runs |
| `dependencies` | the packages that a script names in its head |
| `hosts` | the hosts to which a script sends requests |
| `source` | one parsed file, and the names that it binds |
| `names` | the meanings of names, in a script and the modules that it imports |
| `follow` | the visit of statements, calls and imports, in the order of a run |
| `flow` | the ways in which a part of a script can end, and its needs |
"""

import ast
import gc

from . import dependencies, hosts
from .files import Files
from .flow import MAX_FINDINGS, Flow, Need
from .follow import PYTHON, Follower
from .names import Names

WILL_RUN, WILL_NOT, OPEN, NETWORK = "will run", "will not", "cannot be told", "needs the network"


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
        docstring, source, flow = "", None, Flow()
        # The garbage collector would visit each node of the syntax trees and free none.
        gc.disable()
        try:
            names = Names(self._baked, self._files, script)
            source = names.source(script)
            docstring = (ast.get_docstring(source.tree) or "").strip().partition("\n")[0][:200]
            _follow(names, source, flow)
            for need in dependencies.missing(self._baked, source):
                flow.need(need, False)
        except SyntaxError as error:
            flow.certain.append(Need(script, error.lineno or 1, PYTHON, error.msg))
        except (MemoryError, RecursionError):
            flow.possible[Need(script, None, "nested too deeply to be judged", "")] = None
        except Exception as error:
            # A script that cannot be judged, for example because its encoding is unknown, must not prevent
            # the verdicts on the others.
            if source is None and isinstance(error, (OSError, ValueError)):
                flow.certain.append(Need(script, None, "unreadable", str(error)))
            else:
                why = f"{type(error).__name__}: {error}"
                flow.possible[Need(script, None, "cannot be judged", why)] = None
        finally:
            gc.enable()
        verdict, needs = _verdict(flow)
        return {
            "script": script,
            "description": docstring,
            "verdict": verdict,
            "hosts": _hosts([*flow.certain, *flow.possible]) if verdict == NETWORK else [],
            "reasons": _reasons(needs),
        }


def _hosts(needs):
    """Returns the hosts that needs name."""
    return list(dict.fromkeys(hosts.address(it) for need in needs for it in need.origins or ()))[:hosts.MAX_HOSTS]


def _verdict(flow):
    """Returns the verdict, and the needs that are its reasons."""
    unsupported = [need for need in flow.certain if need.origins is None]
    if unsupported:
        return WILL_NOT, unsupported
    if all(need.origins is not None for need in flow.possible):
        return (NETWORK, flow.certain) if flow.certain else (OPEN, flow.possible) if flow.possible else (WILL_RUN, ())
    return OPEN, [*flow.certain, *flow.possible]


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
