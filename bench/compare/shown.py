"""Formats a comparison as a table for a terminal, as Markdown, and as JSON. chart.py draws its
picture."""
import json

import chart

# The lines around the table in a page.
START, END = "<!-- written by bench/compare/run -->\n", "<!-- end -->\n"
HEAD = ["what", "skillhost", "compared with", "figure", "in single rounds", "target", "met"]


def time(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return "%s %s" % (digits(nanoseconds / size), unit)
    return "%s µs" % digits(nanoseconds / 1e3)


def digits(value):
    """Returns a number with three significant digits."""
    return "%.*f" % (0 if value >= 100 else 1 if value >= 10 else 2, value)


def measured(side):
    """Returns the median and the 99th percentile of a side, or its other figure."""
    if side is None:
        return ""
    if "calls_per_second" in side:
        return "%s calls/s" % format(round(side["calls_per_second"]), ",")
    if "mebibytes" in side:
        return "%s MiB" % digits(side["mebibytes"])
    return "%s (%s)" % (time(side["median_ns"]), time(side["p99_ns"]))


def with_unit(row, value):
    return digits(value) if row["unit"] == "ratio" else "%s %s" % (digits(value), row["unit"])


def cells(row):
    rounds = row.get("rounds")
    target = row["target"]
    return [
        row["what"],
        measured(row.get("ours")),
        measured(row.get("theirs")),
        with_unit(row, row["value"]),
        "%s to %s" % (digits(rounds["low"]), digits(rounds["high"])) if rounds else "",
        "" if target is None else "%s %s" % (row["sense"], with_unit(row, target)),
        {True: "yes", False: "no", None: ""}[row["met"]],
    ]


def groups(comparison):
    """Returns the rows by group, in the order in which they were measured."""
    found = {}
    for row in comparison["rows"]:
        found.setdefault(row["group"], []).append(row)
    return found.items()


def about(comparison):
    return "%s%s%s; Python %s, mcp %s; %d rounds; medians, and 99th percentiles in brackets" % (
        "two builds; " if comparison.get("builds") else "",
        comparison["machine"], ", a quick run" if comparison["quick"] else "",
        comparison["python"], comparison["mcp"], comparison["rounds"])


def names(rows):
    """Returns the names of the two sides of a group, or `None` if its rows have several pairs."""
    pairs = {(row["ours"]["name"], row["theirs"]["name"]) for row in rows if row.get("theirs")}
    return " against ".join(pairs.pop()) if len(pairs) == 1 else None


def table(comparison):
    shown = {group: [cells(row) for row in rows] for group, rows in groups(comparison)}
    widths = [max(len(line[column]) for lines in [[HEAD], *shown.values()] for line in lines)
              for column in range(len(HEAD))]

    def line(values):
        padded = [value.ljust(width) if column == 0 else value.rjust(width)
                  for column, (value, width) in enumerate(zip(values, widths))]
        return "  ".join(padded).rstrip() + "\n"

    text = about(comparison) + "\n\n" + line(HEAD)
    for group, rows in groups(comparison):
        sides = names(rows)
        text += "\n%s%s\n" % (group, ": " + sides if sides else "")
        text += "".join(map(line, shown[group]))
    return text


def markdown(comparison):
    text = about(comparison) + ".\n"
    for group, rows in groups(comparison):
        sides = names(rows)
        text += "\n**%s**%s\n\n" % (group[0].upper() + group[1:], ": " + sides if sides else "")
        text += "| %s |\n|---|%s\n" % (" | ".join(HEAD), "--:|" * (len(HEAD) - 1))
        for row in rows:
            text += "| %s |\n" % " | ".join(cells(row))
    return text


def with_table(page, comparison):
    """Returns a page of Markdown with its table replaced."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError("the page has no lines `%s` and `%s`" % (START.strip(), END.strip()))
    return before + start + "\n" + markdown(comparison) + "\n" + end + after


def as_json(comparison):
    return json.dumps(comparison, indent=1, ensure_ascii=False) + "\n"


FORMS = {"table": table, "markdown": markdown, "json": as_json, "svg": chart.svg}
