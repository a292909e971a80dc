"""What was measured, as rows: samples of two sides taken in turns, their medians and
99th percentiles, the ratio, and the target that it is held against."""
import statistics


class Progress:
    """What is being measured, on a terminal."""

    def __init__(self, stream):
        self.stream = stream if stream.isatty() else None

    def say(self, text):
        if self.stream:
            self.stream.write("\r\x1b[K" + text)
            self.stream.flush()


def in_turns(ours, theirs, rounds, times, say):
    """Two sides, A B B A. A side is a function that runs so many times and gives the
    nanoseconds of each."""
    return all_in_turns((ours, theirs), rounds, times, say)


def all_in_turns(sides, rounds, times, say):
    """Each side, and back again, round for round, so that a slow moment of the machine
    meets all of them. Another begins each round: who is first and last has two turns on
    end, and finds the caches warmer than who is between."""
    return turns(sides, rounds, times, say, lambda order: order + order[::-1])


def alternating(sides, rounds, times, say):
    """Two sides, A B A B, and B A B A in the next round: in a round nobody has two turns on
    end, so that its ratio favours nobody."""
    return turns(sides, rounds, times, say, lambda order: order + order)


def turns(sides, rounds, times, say, arranged):
    for side in sides:
        side(times)
    taken = [[] for _ in sides]
    for number in range(rounds):
        say("round %d of %d" % (number + 1, rounds))
        of_round = [[] for _ in sides]
        order = [(number + at) % len(sides) for at in range(len(sides))]
        for which in arranged(order):
            of_round[which].extend(sides[which](times))
        for which, samples in enumerate(of_round):
            taken[which].append(samples)
    return taken


def percentile(values, percent):
    """The nearest rank: a value that was seen, and not one between two."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def side(name, rounds):
    values = [value for one in rounds for value in one]
    return {
        "name": name,
        "median_ns": statistics.median(values),
        "p99_ns": percentile(values, 99),
        "samples": len(values),
    }


def row(name, group, what, value, unit, target=None, sense="at most", **more):
    """A figure. A row without a target is there to be known."""
    met = None
    if target is not None:
        met = value <= target if sense == "at most" else value >= target
    return {"id": name, "group": group, "what": what, "value": value, "unit": unit,
            "target": target, "sense": sense if target is not None else None, "met": met, **more}


def ratio(name, group, what, names, taken, target=None):
    """The ratio of the medians of all samples; beside it how far the same ratio went in
    single rounds, which says how much the machine had else to do."""
    ours, theirs = (side(name, rounds) for name, rounds in zip(names, taken))
    single = [statistics.median(a) / statistics.median(b) for a, b in zip(*taken)]
    return row(name, group, what, ours["median_ns"] / theirs["median_ns"], "ratio", target,
               ours=ours, theirs=theirs,
               rounds={"low": percentile(single, 10), "high": percentile(single, 90)})
