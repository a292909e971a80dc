"""Writes a CSV file with quotes in it."""
import csv
from pathlib import Path

from shared import data

rows = list(csv.reader(data("sales.csv").open(newline="")))
Path("out").mkdir()
with open("out/copy.csv", "w", newline="") as file:
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(rows[0])
    writer.writerows([*row[:3], int(row[3]), float(row[4])] for row in rows[1:])
print(Path("out/copy.csv").read_text())
print(csv.Sniffer().sniff("a;b;c\n1;2;3\n").delimiter)
