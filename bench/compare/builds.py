"""Two builds of skillhost against each other: this one, and that of another checkout. Both
do the same in turns, and another begins each round. A call inside a process, and memory,
are held against a limit. All else depends on more than the program, so there the spread of
the single rounds says whether there is a difference."""
import contextlib

from clients import Bare, Twin, on_one_processor, same, sessions
from figures import alternating, ratio, row
from in_process import TIMES, TOOL
from over_mcp import CASES
from processes import call, ended, first_answer, resident
from subject import ERRORS, SIZES, file_of

NAMES = ("this build", "the other build")
READS = ("4 KB", "1 MiB")
# Of fewer, one build is the slower one in each by chance too often.
FEWEST = 10
# Processes of each build that take part in a row, one after the other: one is by chance a
# little faster than another of the same program, for as long as it runs.
PROCESSES = 5


def measure(place, other, rounds, say, limit):
    places = (place, other)
    # These take more than a minute. In a file's first minute the guard also checks that its
    # name still exists, which a call in process would show.
    rest = [*over_stdio(places, rounds, say), *whole_processes(places, rounds, say, limit)]
    return [*in_process(places, rounds, say, limit), *rest]


def in_process(places, rounds, say, limit):
    reads = [(size, file_of(size), TIMES[size]) for size in SIZES]
    errors = [(what, arguments, 100) for what, arguments in ERRORS.items()]
    order = {"tool": TOOL, "form": "record"}
    for what, arguments, times in reads + errors:
        taken = in_pairs(twins, places, what, lambda twin: twin.answer(arguments, **order),
                         lambda twin: twin.calls(arguments, **order), rounds, times,
                         lambda text: say("in process, %s: %s" % (what, text)))
        yield ratio("build-in-process-" + what.replace(" ", "-"),
                    "in process, with the JSON message", what, NAMES, taken, limit)


def over_stdio(places, rounds, say):
    for client, opened, group in (("bare", bare, "MCP over stdio, bare pipes"),
                                  ("sdk", sdk, "MCP over stdio, the SDK's client")):
        for what in READS:
            arguments, times, _ = CASES[what]
            taken = in_pairs(opened, places, what, lambda server: server.read(arguments),
                             lambda server: server.calls(arguments), rounds, times[client],
                             lambda text: say("%s, %s: %s" % (group, what, text)))
            yield spread(ratio("build-%s-%s" % (client, what.replace(" ", "-")), group, what,
                               NAMES, taken))


def in_pairs(opened, places, what, answer, side, rounds, times, say):
    """The turns of several pairs of processes, all on one processor, and so their client: on
    two, where the system puts them makes more of a difference than builds do."""
    taken = [[] for _ in places]
    for _ in range(PROCESSES):
        with on_one_processor(), opened(places) as pair:
            same(what, *map(answer, pair))
            more = alternating([side(one) for one in pair], rounds // PROCESSES, times, say)
        for all_rounds, rounds_of_pair in zip(taken, more):
            all_rounds += rounds_of_pair
    return taken


@contextlib.contextmanager
def twins(places):
    with contextlib.ExitStack() as open_:
        yield [open_.enter_context(contextlib.closing(Twin(place.driver(place.skills))))
               for place in places]


@contextlib.contextmanager
def bare(places):
    with contextlib.ExitStack() as open_:
        yield [open_.enter_context(contextlib.closing(Bare(serve(place), place.environment)))
               for place in places]


@contextlib.contextmanager
def sdk(places):
    with contextlib.ExitStack() as open_:
        # Each has an environment of its own, which names the build's cache.
        yield [open_.enter_context(sessions(serve(place), env=place.environment))[0]
               for place in places]


def serve(place):
    return [place.skillhost, "serve", "--skills", str(place.skills)]


def whole_processes(places, rounds, say, limit):
    group = "whole processes"
    calls = [ended(call(place), place.environment) for place in places]
    taken = alternating(calls, rounds, 2, lambda text: say("`call`: %s" % text))
    yield spread(ratio("build-call", group, "`call` on a 4 KB file", NAMES, taken))
    starts = [first_answer(serve(place), place.environment) for place in places]
    taken = alternating(starts, rounds, 2, lambda text: say("`serve`: %s" % text))
    yield spread(ratio("build-first-result", group, "`serve`, up to the first result", NAMES, taken))
    # A server takes seconds to come to rest.
    yield memory(group, places, max(3, rounds // 12), say, limit)


def memory(group, places, rounds, say, limit):
    """The least of several servers: one and the same program has 35 MiB or 40, by chance."""
    idle = [lambda times, place=place: [resident(place)[0] for _ in range(times)]
            for place in places]
    taken = alternating(idle, rounds, 1, lambda text: say("idle memory: %s" % text))
    ours, theirs = (
        {"name": name, "mebibytes": min(map(min, found)), "samples": sum(map(len, found))}
        for name, found in zip(NAMES, taken))
    single = [min(a) / min(b) for a, b in zip(*taken)]
    return row("build-memory", group, "resident memory of an idle server, the least",
               ours["mebibytes"] / theirs["mebibytes"], "ratio", limit, ours=ours, theirs=theirs,
               rounds={"low": min(single), "high": max(single)})


def spread(found):
    """This build takes more if it did in nine rounds of ten, by a hundredth that is shown."""
    low = found["rounds"]["low"]
    return dict(found, target=1.0, sense="low end at most", met=round(low, 2) <= 1)
