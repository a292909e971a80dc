"""Measures sides in turns, and makes the rows of a comparison: medians, 99th percentiles, the
ratio of two sides, and its target."""
import statistics


class Progress:
    """Shows the current measurement on a terminal."""

    def __init__(self, stream):
        self.stream = stream if stream.isatty() else None

    def say(self, text):
        if self.stream:
            self.stream.write("\r\x1b[K" + text)
            self.stream.flush()


def in_turns(ours, theirs, rounds, times, say):
    """Measures two sides in the order A B B A. A side is a function that runs a number of times
    and returns the nanoseconds of each run."""
    return all_in_turns((ours, theirs), rounds, times, say)


def all_in_turns(sides, rounds, times, say):
    """Measures the sides forwards and then backwards in each round, so that a slow moment of
    the machine affects all. The first side changes with each round, because the first and the
    last one have two turns in a row, and find the caches warmer than those between."""
    return turns(sides, rounds, times, say, lambda order: order + order[::-1])


def alternating(sides, rounds, times, say):
    """Measures two sides in the order A B A B, and B A B A in the next round. No side has two
    turns in a row within a round, so the ratio of a round favours none."""
    return turns(sides, rounds, times, say, lambda order: order + order)


def turns(sides, rounds, times, say, arranged):
    for side in sides:
        side(times)
    taken = [[] for _ in sides]
    for number in range(rounds):
        say("round %d of %d" % (number + 1, rounds))
        round_samples = [[] for _ in sides]
        order = [(number + index) % len(sides) for index in range(len(sides))]
        for which in arranged(order):
            round_samples[which].extend(sides[which](times))
        for which, samples in enumerate(round_samples):
            taken[which].append(samples)
    return taken


def percentile(values, percent):
    """Returns the value of the nearest rank, without interpolation."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def side_figures(name, rounds):
    """Returns the figures of one side of a row."""
    values = [value for one in rounds for value in one]
    return {
        "name": name,
        "median_ns": statistics.median(values),
        "p99_ns": percentile(values, 99),
        "samples": len(values),
    }


def row(name, group, what, value, unit, target=None, sense="at most", **more):
    """Returns a row of the table. A row without a target is for information."""
    met = None
    if target is not None:
        met = value <= target if sense == "at most" else value >= target
    return {"id": name, "group": group, "what": what, "value": value, "unit": unit,
            "target": target, "sense": sense if target is not None else None, "met": met, **more}


def ratio(name, group, what, names, taken, target=None):
    """Returns a row with the ratio of the medians of all samples, and its range in single
    rounds. Other work on the machine makes the range wide."""
    ours, theirs = (side_figures(name, rounds) for name, rounds in zip(names, taken))
    single = [statistics.median(a) / statistics.median(b) for a, b in zip(*taken)]
    return row(name, group, what, ours["median_ns"] / theirs["median_ns"], "ratio", target,
               ours=ours, theirs=theirs,
               rounds={"low": percentile(single, 10), "high": percentile(single, 90)})
