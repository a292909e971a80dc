"""Compares two builds of skillhost: this one, and one of another checkout. Both do the same
work in turns, and each begins every other round. `--limit` bounds calls inside a process and
memory. All other figures also depend on the machine, so for them the range of the single rounds
shows whether there is a difference."""
import contextlib

from clients import Bare, TimedProcess, check_same, on_one_processor, sessions
from figures import alternating, ratio, row
from in_process import TIMES, TOOL
from over_mcp import CASES
from processes import call, first_answer, resident, run_to_end
from subject import ERRORS, SIZES, arguments_for

NAMES = ("this build", "the other build")
READS = ("4 KB", "1 MiB")
# The minimum number of rounds. With fewer, one build would too often be slower in every round by
# chance.
MIN_ROUNDS = 10
# The number of processes of each build, one after the other, that a row of the table measures. A
# process can be a little faster than another of the same program for as long as it runs.
PROCESSES = 5


def measure(setup, other, rounds, say, limit):
    setups = (setup, other)
    # Measure these first, which takes more than a minute: in a file's first minute, the guard
    # also checks that its name still exists, which would make calls in process slower.
    rest = [*over_stdio(setups, rounds, say), *whole_processes(setups, rounds, say, limit)]
    return [*in_process(setups, rounds, say, limit), *rest]


def in_process(setups, rounds, say, limit):
    reads = [(size, arguments_for(size), TIMES[size]) for size in SIZES]
    errors = [(what, arguments, 100) for what, arguments in ERRORS.items()]
    order = {"tool": TOOL, "form": "record"}
    for what, arguments, times in reads + errors:
        taken = in_pairs(timed_processes, setups, what,
                         lambda process: process.answer(arguments, **order),
                         lambda process: process.calls(arguments, **order), rounds, times,
                         lambda text: say("in process, %s: %s" % (what, text)))
        yield ratio("build-in-process-" + what.replace(" ", "-"),
                    "in process, with the JSON message", what, NAMES, taken, limit)


def over_stdio(setups, rounds, say):
    for client, opened, group in (("bare", bare, "MCP over stdio, bare pipes"),
                                  ("sdk", sdk, "MCP over stdio, the SDK's client")):
        for what in READS:
            arguments, times, _ = CASES[what]
            taken = in_pairs(opened, setups, what, lambda server: server.read(arguments),
                             lambda server: server.calls(arguments), rounds, times[client],
                             lambda text: say("%s, %s: %s" % (group, what, text)))
            yield spread(ratio("build-%s-%s" % (client, what.replace(" ", "-")), group, what,
                               NAMES, taken))


def in_pairs(opened, setups, what, answer, side, rounds, times, say):
    """Measures several pairs of processes, all on one processor with their client. On two
    processors, figures would depend more on who runs where than on the build."""
    taken = [[] for _ in setups]
    for _ in range(PROCESSES):
        with on_one_processor(), opened(setups) as pair:
            check_same(what, *map(answer, pair))
            more = alternating([side(one) for one in pair], rounds // PROCESSES, times, say)
        for all_rounds, rounds_of_pair in zip(taken, more):
            all_rounds += rounds_of_pair
    return taken


@contextlib.contextmanager
def timed_processes(setups):
    with contextlib.ExitStack() as open_:
        yield [open_.enter_context(contextlib.closing(TimedProcess(setup.driver(setup.skills))))
               for setup in setups]


@contextlib.contextmanager
def bare(setups):
    with contextlib.ExitStack() as open_:
        yield [open_.enter_context(contextlib.closing(Bare(serve(setup), setup.environment)))
               for setup in setups]


@contextlib.contextmanager
def sdk(setups):
    with contextlib.ExitStack() as open_:
        # Each has its own environment, which names the build's cache.
        yield [open_.enter_context(sessions(serve(setup), env=setup.environment))[0]
               for setup in setups]


def serve(setup):
    return [setup.skillhost, "serve", "--skills", str(setup.skills)]


def whole_processes(setups, rounds, say, limit):
    group = "whole processes"
    calls = [run_to_end(call(setup), setup.environment) for setup in setups]
    taken = alternating(calls, rounds, 2, lambda text: say("`call`: %s" % text))
    yield spread(ratio("build-call", group, "`call` on a 4 KB file", NAMES, taken))
    starts = [first_answer(serve(setup), setup.environment) for setup in setups]
    taken = alternating(starts, rounds, 2, lambda text: say("`serve`: %s" % text))
    yield spread(ratio("build-first-result", group, "`serve`, up to the first result", NAMES, taken))
    # A server takes seconds to come to rest.
    yield memory(group, setups, max(3, rounds // 12), say, limit)


def memory(group, setups, rounds, say, limit):
    """Returns a row with the least memory of several servers, because one program can have 35 or
    40 MiB by chance."""
    idle = [lambda times, setup=setup: [resident(setup)[0] for _ in range(times)]
            for setup in setups]
    taken = alternating(idle, rounds, 1, lambda text: say("idle memory: %s" % text))
    ours, theirs = (
        {"name": name, "mebibytes": min(map(min, found)), "samples": sum(map(len, found))}
        for name, found in zip(NAMES, taken))
    single = [min(a) / min(b) for a, b in zip(*taken)]
    return row("build-memory", group, "resident memory of an idle server, the least",
               ours["mebibytes"] / theirs["mebibytes"], "ratio", limit, ours=ours, theirs=theirs,
               rounds={"low": min(single), "high": max(single)})


def spread(found):
    """Sets a target: this build counts as slower if it was slower in nine of ten rounds, by at
    least 0.01, the smallest difference that the table shows."""
    low = found["rounds"]["low"]
    return dict(found, target=1.0, sense="low end at most", met=round(low, 2) <= 1)
