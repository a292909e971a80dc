"""Measures calls with more skills, more components and more threads."""
import contextlib
import json
import statistics

from clients import TimedProcess, check_same, on_one_processor
from figures import in_turns, percentile, ratio, row
from subject import arguments_for

TOOL = "read_file_in_skill"
GROUP = "scale"
ARGUMENTS = arguments_for("4 KB")
TIMES = 100
MILLISECONDS = 30
TRIPS = 5


def measure(setup, rounds, say):
    with on_one_processor():
        many, few = (TimedProcess(setup.driver(skills)) for skills in (setup.many_skills, setup.skills))
    with contextlib.closing(many), contextlib.closing(few):
        rows = [pair("skills", setup.counts["skills"], "skills", many, few, rounds, say)]
    host, other = (TimedProcess(setup.driver(setup.skills)) for _ in range(2))
    with contextlib.closing(host), contextlib.closing(other):
        rows += threads(host, other, rounds, say)
    loaded = setup.driver(setup.skills, setup.many_tools), setup.driver(setup.skills, setup.one_tool)
    say("%d components are loaded" % setup.counts["components"][0])
    with on_one_processor():
        many, few = (TimedProcess(command) for command in loaded)
    with contextlib.closing(many), contextlib.closing(few):
        check_same("tools", (many.tools, few.tools), setup.counts["components"])
        # Call each tool once, because a component is loaded at its first call.
        for name in setup.many_tools[1]:
            many.answer(ARGUMENTS, tool=name, form="record")
        rows.append(pair("components", setup.counts["components"], "components", many, few,
                         rounds, say))
    return rows


def pair(name, counts, unit, many, few, rounds, say):
    names = tuple("%s %s" % (format(count, ","), unit) for count in counts)
    what = "one call, %s against %s" % (names[0], format(counts[1], ","))
    order = {"tool": TOOL, "form": "record"}
    check_same(what, many.answer(ARGUMENTS, **order), few.answer(ARGUMENTS, **order))
    taken = in_turns(many.calls(ARGUMENTS, **order), few.calls(ARGUMENTS, **order), rounds, TIMES,
                     lambda text: say("%s: %s" % (what, text)))
    return ratio("scale-" + name, GROUP, what, names, taken, 1.1)


def threads(host, other, rounds, say):
    """Returns the throughput of two threads and of two processes, each as a multiple of one
    thread's. Processes share nothing, so they show what the processors can do. Threads share
    memory, so the same rounds also measure the trip of a cache line between processors."""
    def order(count):
        return {"order": "throughput", "tool": TOOL, "form": "record", "arguments": ARGUMENTS,
                "threads": count, "milliseconds": MILLISECONDS}

    def one():
        return [host.execute(**order(1))]

    def two_threads():
        return [host.execute(**order(2))]

    def two_processes():
        return together((host, other), order(1))

    two_threads()
    taken = {run: [] for run in (one, two_threads, two_processes)}
    trips = []
    for number in range(rounds):
        say("threads: round %d of %d" % (number + 1, rounds))
        for run in (two_threads, one, two_processes, two_processes, one, two_threads):
            taken[run].append(sum(each["calls"] / each["seconds"] for each in run()))
        trips.append(min(host.execute(order="exchange", times=TRIPS)["nanoseconds"]))
    return [against(taken[two_threads], taken[one], "two threads", "threads", 1.8),
            against(taken[two_processes], taken[one], "two processes", "processes", None),
            row("scale-exchange", GROUP, "a cache line to the other processor and back",
                statistics.median(trips), "ns",
                rounds={"low": percentile(trips, 10), "high": percentile(trips, 90)})]


def together(hosts, order):
    """Sends the same order to all hosts at the same time, and returns their answers."""
    for host in hosts:
        host.send(json.dumps(order).encode() + b"\n")
    return [json.loads(host.receive()) for host in hosts]


def against(more, single, name, short, target):
    each_round = [sum(more[start:start + 2]) / sum(single[start:start + 2])
                  for start in range(0, len(single), 2)]
    ours, theirs = (
        {"name": called, "samples": len(counted), "calls_per_second": statistics.median(counted)}
        for called, counted in ((name, more), ("1 thread", single)))
    return row("scale-" + short, GROUP, "throughput, %s against one" % name,
               ours["calls_per_second"] / theirs["calls_per_second"], "ratio", target, "at least",
               ours=ours, theirs=theirs,
               rounds={"low": percentile(each_round, 10), "high": percentile(each_round, 90)})
