"""The same reads over MCP on stdin and stdout: `skillhost serve` against the server on
the Python SDK. Once with the SDK's client, whose own work is in both figures, and once
with bare pipes, where the servers' is all there is. What the SDK's client takes by
itself is measured, too: with a server that has its answers ready."""
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

READY = ("a server with its answers ready", SDK)

# Of the SDK's client by itself: how many microseconds that server computes first.
ALONE = {"4 KB": {"4 KB": 0, "4 KB, 50 µs later": 50}, "1 MiB": {"1 MiB": 0}}


def commands(place):
    ours = [place.skillhost, "serve", "--skills", str(place.skills)]
    return ours, [sys.executable, place.own("server.py"), str(place.skills)]


def measure(place, rounds, say):
    ours, theirs = commands(place)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        json.dump(answers(theirs), file)
        file.flush()
        ready = {after: [place.compare, "recorded", file.name, str(after)] for after in (0, 50)}
        with sessions(ours, theirs, *ready.values(), env=place.environment) as servers:
            one, other, *ready_servers = servers
            rows, alone = compare("sdk", "MCP over stdio, the SDK's client", one, other, rounds,
                                  say, dict(zip(ready, ready_servers)))
    with contextlib.closing(Bare(ours, place.environment)) as one, \
            contextlib.closing(Bare(theirs, place.environment)) as other:
        bare, _ = compare("bare", "MCP over stdio, bare pipes", one, other, rounds, say)
    return rows + alone + bare


def compare(client, group, ours, theirs, rounds, say, ready=None):
    """The rows of a client, and those of the client by itself: what it comes to with a
    server that only repeats what the other one has answered."""
    rows, alone = [], []
    for what, (arguments, times, target) in CASES.items():
        after = ALONE.get(what, {}) if ready else {}
        servers = [ours, theirs, *(ready[each] for each in after.values())]
        for server in servers:
            same("%s, %s" % (group, what), server.read(arguments), theirs.read(arguments))
        taken = all_in_turns([server.calls(arguments) for server in servers], rounds, times[client],
                             lambda text: say("%s, %s: %s" % (group, what, text)))
        rows.append(ratio(name(client, what), group, what, NAMES, taken[:2], target))
        for label, samples in zip(after, taken[2:]):
            alone.append(ratio(name("alone", label), group + " by itself", label, READY,
                               (samples, taken[1])))
    return rows, alone


def name(client, what):
    return "mcp-%s-%s" % (client, what.replace(",", "").replace("µ", "u").replace(" ", "-"))


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
