"""Turn lines of key=value pairs into CSV on standard output.

    python3 scripts/to_csv.py data/samples/input.txt > readings.csv

Columns come in the order in which their keys first appear; a key that a line
lacks leaves its cell empty. Exit status: 0 done, 1 a line could not be read,
2 wrong usage.
"""

import csv
import shlex
import sys


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    rows, columns = [], {}
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                pairs = [word.partition("=") for word in shlex.split(line)]
                if any(separator == "" for _, separator, _ in pairs):
                    raise ValueError(f"line {number}: a word is not key=value")
                if pairs:
                    rows.append({key: value for key, _, value in pairs})
                    columns.update(dict.fromkeys(rows[-1]))
    except (OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    writer = csv.DictWriter(sys.stdout, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
