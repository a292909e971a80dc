"""Totals by region from a CSV file."""
import argparse
import csv
from collections import defaultdict


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--by", choices=["region", "product"], default="region")
    parser.add_argument("-v", "--verbose", action="count", default=0)
    args = parser.parse_args()
    totals = defaultdict(float)
    with open(args.file, newline="") as file:
        for row in csv.DictReader(file):
            totals[row[args.by]] += int(row["units"]) * float(row["price"])
    for key in sorted(totals):
        print(f"{key:15} {totals[key]:10.2f}")
    print("verbosity", args.verbose)


if __name__ == "__main__":
    main()
