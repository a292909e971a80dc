"""The same reads over MCP on stdin and stdout: `skillhost serve` against the server on
the Python SDK. Once with the SDK's client, whose own work is in both figures, and once
with bare pipes, where the servers' is all there is."""
import contextlib
import sys

from clients import Bare, same, sessions
from figures import in_turns, ratio
from subject import ERRORS, file_of

CASES = {
    "4 KB": (file_of("4 KB"), {"bare": 25, "sdk": 15}, 0.25),
    "1 MiB": (file_of("1 MiB"), {"bare": 3, "sdk": 3}, 0.5),
    "a missing file": (ERRORS["a missing file"], {"bare": 25, "sdk": 15}, None),
}
NAMES = ("skillhost serve", "a server on the Python SDK, no sandbox")


def commands(place):
    ours = [place.skillhost, "serve", "--skills", str(place.skills)]
    return ours, [sys.executable, place.own("server.py"), str(place.skills)]


def measure(place, rounds, say):
    ours, theirs = commands(place)
    with sessions(ours, theirs, env=place.environment) as pair:
        rows = compare("sdk", "MCP over stdio, the SDK's client", *pair, rounds, say)
    with contextlib.closing(Bare(ours, place.environment)) as one, \
            contextlib.closing(Bare(theirs, place.environment)) as other:
        rows += compare("bare", "MCP over stdio, bare pipes", one, other, rounds, say)
    return rows


def compare(client, group, ours, theirs, rounds, say):
    rows = []
    for what, (arguments, times, target) in CASES.items():
        same("%s, %s" % (group, what), ours.read(arguments), theirs.read(arguments))
        taken = in_turns(ours.calls(arguments), theirs.calls(arguments), rounds, times[client],
                         lambda text: say("%s, %s: %s" % (group, what, text)))
        name = "mcp-%s-%s" % (client, what.replace(" ", "-"))
        rows.append(ratio(name, group, what, NAMES, taken, target))
    return rows
