"""What a call costs where there is more: more skills, more components, more threads."""
import contextlib
import statistics

from clients import Twin, same
from figures import in_turns, percentile, ratio, row
from subject import file_of

TOOL = "read_file_in_skill"
GROUP = "scale"
ARGUMENTS = file_of("4 KB")
TIMES = 100
MILLISECONDS = 150


def measure(place, rounds, say):
    many, few = (Twin(place.driver(skills)) for skills in (place.many_skills, place.skills))
    with contextlib.closing(many), contextlib.closing(few):
        rows = [pair("skills", place.counts["skills"], "skills", many, few, rounds, say)]
        rows.append(threads(few, rounds, say))
    loaded = place.driver(place.skills, place.many_tools), place.driver(place.skills, place.one_tool)
    say("%d components are loaded" % place.counts["components"][0])
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


def threads(host, rounds, say):
    """Calls a second, which are many: the median of each round's."""
    def run(count):
        counted = host.obey(order="throughput", tool=TOOL, form="record", arguments=ARGUMENTS,
                            threads=count, milliseconds=MILLISECONDS)
        return counted["calls"] / counted["seconds"]

    run(2)
    taken = {1: [], 2: []}
    for number in range(rounds):
        say("threads: round %d of %d" % (number + 1, rounds))
        for count in (2, 1, 1, 2):
            taken[count].append(run(count))
    single = [sum(taken[2][at:at + 2]) / sum(taken[1][at:at + 2])
              for at in range(0, 2 * rounds, 2)]
    ours, theirs = (
        {"name": "%d thread%s" % (count, "s"[:count - 1]), "samples": len(taken[count]),
         "calls_per_second": statistics.median(taken[count])} for count in (2, 1))
    return row("scale-threads", GROUP, "throughput, two threads against one",
               ours["calls_per_second"] / theirs["calls_per_second"], "ratio", 1.8, "at least",
               ours=ours, theirs=theirs,
               rounds={"low": percentile(single, 10), "high": percentile(single, 90)})
