"""What a call costs where there is more: more skills, more components, more threads."""
import contextlib
import json
import statistics

from clients import Twin, on_one_processor, same
from figures import in_turns, percentile, ratio, row
from subject import file_of

TOOL = "read_file_in_skill"
GROUP = "scale"
ARGUMENTS = file_of("4 KB")
TIMES = 100
MILLISECONDS = 30
TRIPS = 5


def measure(place, rounds, say):
    with on_one_processor():
        many, few = (Twin(place.driver(skills)) for skills in (place.many_skills, place.skills))
    with contextlib.closing(many), contextlib.closing(few):
        rows = [pair("skills", place.counts["skills"], "skills", many, few, rounds, say)]
    host, other = (Twin(place.driver(place.skills)) for _ in range(2))
    with contextlib.closing(host), contextlib.closing(other):
        rows += threads(host, other, rounds, say)
    loaded = place.driver(place.skills, place.many_tools), place.driver(place.skills, place.one_tool)
    say("%d components are loaded" % place.counts["components"][0])
    with on_one_processor():
        many, few = (Twin(command) for command in loaded)
    with contextlib.closing(many), contextlib.closing(few):
        same("tools", (many.tools, few.tools), place.counts["components"])
        # A component is loaded at its first call.
        for name in place.many_tools[1]:
            many.answer(ARGUMENTS, tool=name, form="record")
        rows.append(pair("components", place.counts["components"], "components", many, few,
                         rounds, say))
    return rows


def pair(name, counts, unit, many, few, rounds, say):
    names = tuple("%s %s" % (format(count, ","), unit) for count in counts)
    what = "one call, %s against %s" % (names[0], format(counts[1], ","))
    order = {"tool": TOOL, "form": "record"}
    same(what, many.answer(ARGUMENTS, **order), few.answer(ARGUMENTS, **order))
    taken = in_turns(many.calls(ARGUMENTS, **order), few.calls(ARGUMENTS, **order), rounds, TIMES,
                     lambda text: say("%s: %s" % (what, text)))
    return ratio("scale-" + name, GROUP, what, names, taken, 1.1)


def threads(host, other, rounds, say):
    """Calls a second, which are many: the median of each round's. And those of two
    processes, which share nothing: what the machine's processors have to give. Threads
    do share memory, so how far apart the processors are is measured in the same rounds."""
    def order(count):
        return {"order": "throughput", "tool": TOOL, "form": "record", "arguments": ARGUMENTS,
                "threads": count, "milliseconds": MILLISECONDS}

    def one():
        return [host.obey(**order(1))]

    def two_threads():
        return [host.obey(**order(2))]

    def two_processes():
        return together((host, other), order(1))

    two_threads()
    taken = {run: [] for run in (one, two_threads, two_processes)}
    trips = []
    for number in range(rounds):
        say("threads: round %d of %d" % (number + 1, rounds))
        for run in (two_threads, one, two_processes, two_processes, one, two_threads):
            taken[run].append(sum(each["calls"] / each["seconds"] for each in run()))
        trips.append(min(host.obey(order="exchange", times=TRIPS)["nanoseconds"]))
    return [against(taken[two_threads], taken[one], "two threads", "threads", 1.8),
            against(taken[two_processes], taken[one], "two processes", "processes", None),
            row("scale-exchange", GROUP, "a cache line to the other processor and back",
                statistics.median(trips), "ns",
                rounds={"low": percentile(trips, 10), "high": percentile(trips, 90)})]


def together(hosts, order):
    """The same order to each, at the same time."""
    for host in hosts:
        host.send(json.dumps(order).encode() + b"\n")
    return [json.loads(host.receive()) for host in hosts]


def against(more, single, name, short, target):
    each_round = [sum(more[at:at + 2]) / sum(single[at:at + 2])
                  for at in range(0, len(single), 2)]
    ours, theirs = (
        {"name": called, "samples": len(counted), "calls_per_second": statistics.median(counted)}
        for called, counted in ((name, more), ("1 thread", single)))
    return row("scale-" + short, GROUP, "throughput, %s against one" % name,
               ours["calls_per_second"] / theirs["calls_per_second"], "ratio", target, "at least",
               ours=ours, theirs=theirs,
               rounds={"low": percentile(each_round, 10), "high": percentile(each_round, 90)})
