"""Leaves files open, and objects to finalize."""
import csv
import gzip
import sys
import zipfile

import helpers.keeper


def square(number):
    return number * number


class Report:
    """Something that writes when it is finalized."""

    def __init__(self, path):
        self.file = open(path, "w")
        self.file.write("# Report\n")
        self.itself = self

    def __del__(self):
        self.file.write("the end, %d\n" % square(3))
        print("finalized", csv.__name__)


def lines(path):
    with open(path, "w") as file:
        try:
            file.write("one\n")
            yield
        finally:
            print("closed")


out = open("squares.csv", "w")
writer = csv.writer(out)
writer.writerows([it, square(it)] for it in range(3))
report = Report("report.md")
suspended = lines("lines.txt")
next(suspended)
both = open("both.bin", "w+b")
both.write(b"bytes")
archive = zipfile.ZipFile("left.zip", "w")
archive.writestr(zipfile.ZipInfo("member"), "text")
compressed = gzip.GzipFile("left.gz", "wb", mtime=0)
compressed.write(b"text")
sys.kept = open("kept.txt", "w")
sys.kept.write("kept")
sys.stdout.write("no end of line, ")
if sys.argv[1:] == ["error"]:
    raise ValueError("not closed")
if sys.argv[1:] == ["exit"]:
    sys.exit(3)
