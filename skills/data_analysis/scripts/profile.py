"""Profile a CSV file: what is in each column, and what looks odd.

    python3 scripts/profile.py data/samples/sales.csv

Reads the file once and changes nothing. Exit status: 0 profile printed, 1 there
is nothing to profile, 2 wrong usage.
"""

import collections
import csv
import math
import statistics
import sys

SHOWN = 3  # values shown of each kind


def number(text):
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None  # "nan" and "inf" are words here


def profile_column(values):
    """What one column holds (a list of words) and what is odd (another)."""
    present = [value for value in values if value.strip() != ""]
    facts, remarks = [], []
    missing = len(values) - len(present)
    if missing:
        remarks.append(f"missing: {missing} of {len(values)}")
    if not present:
        return ["empty"], remarks
    counts = collections.Counter(present)
    if len(counts) == 1 and len(present) > 1:
        remarks.append(f"constant: {present[0]}")
    numbers = [n for n in map(number, present) if n is not None]
    if len(numbers) == len(present):
        facts.append("numbers")
        facts += spread(numbers, remarks)
    elif numbers:
        facts.append("mixed")
        words = [value for value in counts if number(value) is None]
        remarks.append(f"mixed: {len(numbers)} numbers and words such as {', '.join(words[:SHOWN])}")
    else:
        facts.append(f"text, {len(counts)} different")
        facts.append("commonest " + ", ".join(f"{v} ({n})" for v, n in counts.most_common(SHOWN)))
    return facts, remarks


def spread(numbers, remarks):
    facts = [f"{min(numbers):g} to {max(numbers):g}", f"median {statistics.median(numbers):g}"]
    if len(numbers) < 4:
        return facts
    low, _, high = statistics.quantiles(numbers, n=4)
    facts.append(f"middle half {low:g} to {high:g}")
    reach = 1.5 * (high - low)
    odd = [n for n in numbers if n < low - reach or n > high + reach]
    if odd:
        remarks.append("unlike the rest: " + ", ".join(f"{n:g}" for n in odd[:SHOWN]))
    return facts


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        # utf-8-sig: a spreadsheet's byte order mark is not part of the first name.
        with open(sys.argv[1], encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    if len(rows) < 2:
        print("nothing to profile: the file has no rows", file=sys.stderr)
        return 1
    header, body = rows[0], [row for row in rows[1:] if row]
    print(f"{len(body)} rows, {len(header)} columns")
    ragged = sum(len(row) != len(header) for row in body)
    if ragged:
        print(f"  ! {ragged} rows have another number of cells than the header")
    doubles = sum(n - 1 for n in collections.Counter(map(tuple, body)).values())
    if doubles:
        print(f"  ! double rows: {doubles}")
    for index, name in enumerate(header):
        facts, remarks = profile_column([row[index] if index < len(row) else "" for row in body])
        print(f"{name}: " + "; ".join(facts))
        for remark in remarks:
            print(f"  ! {remark}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
