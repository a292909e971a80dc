"""The same reads over MCP on stdin and stdout: `skillhost serve` against the server on
the Python SDK. Once with the SDK's client, whose own work is in both figures, and once
with bare pipes, where the servers' is all there is. Servers that do less show how much of
the first is the client's, and how much the call's: one that has its answers ready, one that
besides has a sandbox made that reads nothing, and reads the file itself, and one that is
nothing but a loop around skillhost's library."""
import contextlib
import json
import sys
import tempfile

from clients import META, Bare, same, sessions
from figures import all_in_turns, ratio
from subject import ERRORS, file_of

CASES = {
    "4 KB": (file_of("4 KB"), {"bare": 25, "sdk": 15}, 0.25),
    "1 MiB": (file_of("1 MiB"), {"bare": 3, "sdk": 3}, 0.5),
    "a missing file": (ERRORS["a missing file"], {"bare": 25, "sdk": 15}, None),
}
SDK = "a server on the Python SDK, no sandbox"
NAMES = ("skillhost serve", SDK)

# Servers that do less, by the driver's names for them: with them the SDK's client is
# measured, too.
LESS = "a server that does less"
SERVERS = ("ready", "sandboxed", "called")
LESSER = {
    "4 KB": {"ready": "4 KB, the answer ready",
             "sandboxed": "4 KB, a sandbox that reads nothing, and a plain read",
             "called": "4 KB, skillhost's library in a loop"},
    "1 MiB": {"ready": "1 MiB, the answer ready"},
}


def commands(place):
    ours = [place.skillhost, "serve", "--skills", str(place.skills)]
    return ours, [sys.executable, place.own("server.py"), str(place.skills)]


def measure(place, rounds, say):
    ours, theirs = commands(place)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        json.dump(answers(theirs), file)
        file.flush()
        lesser = [[*place.driver(place.skills), which, file.name] for which in SERVERS]
        with sessions(ours, theirs, *lesser, env=place.environment) as servers:
            one, other, *lesser = servers
            rows = compare("sdk", "MCP over stdio, the SDK's client", one, other, rounds, say,
                           dict(zip(SERVERS, lesser)))
    with contextlib.closing(Bare(ours, place.environment)) as one, \
            contextlib.closing(Bare(theirs, place.environment)) as other:
        return rows + compare("bare", "MCP over stdio, bare pipes", one, other, rounds, say)


def compare(client, group, ours, theirs, rounds, say, lesser=None):
    """The rows of a client, and those that it comes to with servers that do less."""
    rows, less = [], []
    for what, (arguments, times, target) in CASES.items():
        labels = LESSER.get(what, {}) if lesser else {}
        servers = [ours, theirs, *(lesser[which] for which in labels)]
        for server in servers:
            same("%s, %s" % (group, what), server.read(arguments), theirs.read(arguments))
        taken = all_in_turns([server.calls(arguments) for server in servers], rounds, times[client],
                             lambda text: say("%s, %s: %s" % (group, what, text)))
        rows.append(ratio(name(client, what), group, what, NAMES, taken[:2], target))
        for (which, label), samples in zip(labels.items(), taken[2:]):
            less.append(ratio(name(which, what), group + ", and servers that do less", label,
                              (LESS, SDK), (samples, taken[1])))
    return rows + less


def name(client, what):
    return "mcp-%s-%s" % (client, what.replace(" ", "-"))


def answers(command):
    """What a server answers to all that the SDK's client asks of it."""
    with contextlib.closing(Bare(command, meta=META)) as server:
        found = [{"method": method, "result": server.ask(method, {})}
                 for method in ("server/discover", "tools/list")]
        for arguments, _, _ in CASES.values():
            call = {"name": "read_file_in_skill", "arguments": arguments}
            found.append({"method": "tools/call", "arguments": arguments,
                          "result": server.ask("tools/call", call)})
    return found
