"""Compares reads over MCP on stdin and stdout: `skillhost serve` with a server on the Python
SDK. With the SDK's client, both figures include the client's work. With bare pipes, they include
only the server's.

Servers that do less show how much of the time the client takes, and how much the call. `ready`
has its answers ready. `sandboxed` makes a call that reads no file, and reads the file itself.
`called` is a loop around skillhost's library."""
import contextlib
import json
import sys
import tempfile

from clients import Bare, META, check_same, sessions
from figures import all_in_turns, ratio
from subject import ERRORS, arguments_for

CASES = {
    "4 KB": (arguments_for("4 KB"), {"bare": 25, "sdk": 15}, 0.25),
    "1 MiB": (arguments_for("1 MiB"), {"bare": 3, "sdk": 3}, 0.5),
    "a missing file": (ERRORS["a missing file"], {"bare": 25, "sdk": 15}, None),
}
SDK = "a server on the Python SDK, no sandbox"
NAMES = ("skillhost serve", SDK)

# The driver's names of servers that do less. They show the time of the SDK's client.
REDUCED = "a server that does less"
SERVERS = ("ready", "sandboxed", "called")
REDUCED_LABELS = {
    "4 KB": {"ready": "4 KB, the answer ready",
             "sandboxed": "4 KB, a sandbox that reads nothing, and a plain read",
             "called": "4 KB, skillhost's library in a loop"},
    "1 MiB": {"ready": "1 MiB, the answer ready"},
}


def commands(setup):
    ours = [setup.skillhost, "serve", "--skills", str(setup.skills)]
    return ours, [sys.executable, setup.script("server.py"), str(setup.skills)]


def measure(setup, rounds, say):
    ours, theirs = commands(setup)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        json.dump(answers(theirs), file)
        file.flush()
        reduced = [[*setup.driver(setup.skills), which, file.name] for which in SERVERS]
        with sessions(ours, theirs, *reduced, env=setup.environment) as servers:
            one, other, *reduced = servers
            rows = compare("sdk", "MCP over stdio, the SDK's client", one, other, rounds, say,
                           dict(zip(SERVERS, reduced)))
    with contextlib.closing(Bare(ours, setup.environment)) as one, \
            contextlib.closing(Bare(theirs, setup.environment)) as other:
        return rows + compare("bare", "MCP over stdio, bare pipes", one, other, rounds, say)


def compare(client, group, ours, theirs, rounds, say, reduced=None):
    """Returns the rows of a client, followed by its rows with servers that do less."""
    rows, reduced_rows = [], []
    for what, (arguments, times, target) in CASES.items():
        labels = REDUCED_LABELS.get(what, {}) if reduced else {}
        servers = [ours, theirs, *(reduced[which] for which in labels)]
        for server in servers:
            check_same("%s, %s" % (group, what), server.read(arguments), theirs.read(arguments))
        taken = all_in_turns([server.calls(arguments) for server in servers], rounds, times[client],
                             lambda text: say("%s, %s: %s" % (group, what, text)))
        rows.append(ratio(row_id(client, what), group, what, NAMES, taken[:2], target))
        for (which, label), samples in zip(labels.items(), taken[2:]):
            reduced_rows.append(
                ratio(row_id(which, what), group + ", and servers that do less", label,
                      (REDUCED, SDK), (samples, taken[1])))
    return rows + reduced_rows


def row_id(client, what):
    return "mcp-%s-%s" % (client, what.replace(" ", "-"))


def answers(command):
    """Returns a server's answers to all requests of the SDK's client."""
    with contextlib.closing(Bare(command, meta=META)) as server:
        found = [{"method": method, "result": server.ask(method, {})}
                 for method in ("server/discover", "tools/list")]
        for arguments, _, _ in CASES.values():
            call = {"name": "read_file_in_skill", "arguments": arguments}
            found.append({"method": "tools/call", "arguments": arguments,
                          "result": server.ask("tools/call", call)})
    return found
