"""A CSV file, read a row at a time: its columns, its rows, and the line that each starts at."""

import csv
import io

from skillhost_kit import Failure

# Characters and lines of a file that are read. Meets: a call that takes longer than it may.
MOST = 8 << 20
MOST_LINES = 200_000
# Characters of one line. Meets: a file without lines, which would fill the memory.
LONGEST_LINE = 1 << 20
# Columns, and characters of a column's name. Meets: answers made of names.
MOST_COLUMNS = 1000
LONGEST_NAME = 100
# Columns that are named where one is not found.
LISTED = 50

# What may stand between cells. Where the header has as many of two, it is the first of them
# here: names hold commas rather than tabs.
DELIMITERS = {"tab": "\t", "semicolon": ";", "pipe": "|", "comma": ","}


class Table:
    """The rows of a file, in its order. Can be gone through once."""

    def __init__(self, file, path, delimiter=None):
        self.path = path
        # The file is longer than what is read of it.
        self.cut = False
        # The line that the next row starts at, as line feeds count.
        self._line = 1
        self._characters = self._lines_read = 0
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        first = self._skip_empty_lines()
        if delimiter is None:
            delimiter = _likely(first)
        # A quote that is not closed, or goes on behind its end, is an error, and not a cell of
        # half the file.
        self._reader = csv.reader(
            self._lines(first), delimiter=DELIMITERS[delimiter], strict=True
        )
        header = self._next()
        if header is None:
            raise Failure.unreadable(f"{path}: has no header; the first line must name the columns")
        if len(header[1]) > MOST_COLUMNS:
            raise Failure.unreadable(f"{path}: has more than {MOST_COLUMNS} columns")
        self.columns = _names(header[1])

    def rows(self):
        """Each row's line and cells."""
        while (row := self._next()) is not None:
            yield row

    def find(self, name):
        """The place of a column. Case counts where two differ by nothing else."""
        for key in (str.strip, lambda text: text.strip().casefold()):
            for at, column in enumerate(self.columns):
                if key(column) == key(name):
                    return at
        listed = ", ".join(self.columns[:LISTED])
        if len(self.columns) > LISTED:
            listed += f" and {len(self.columns) - LISTED} more"
        raise Failure.not_found(f"{self.path} has no column '{name}'. It has: {listed}.")

    def _next(self):
        """The next row that is no empty line."""
        while True:
            line = self._line
            try:
                cells = next(self._reader, None)
            except csv.Error as error:
                if self.cut:
                    # The row goes on behind what is read.
                    return None
                raise self._broken(line, WHY.get(str(error), str(error))) from None
            except MemoryError:
                raise self._broken(line, "it is too large") from None
            if cells is None:
                return None
            if cells:
                return line, cells

    def _broken(self, line, why):
        return Failure.unreadable(f"{self.path}: the row that starts at line {line}: {why}")

    def _skip_empty_lines(self):
        """The first line that is not empty, without a byte order mark."""
        line = self._read().removeprefix("\ufeff")
        while line and not line.strip("\r\n"):
            self._count(line)
            line = self._read()
        return line

    def _lines(self, line):
        """The lines from this one on."""
        while line:
            self._count(line)
            yield line
            line = self._read()

    def _count(self, line):
        # Where lines end in a carriage return alone, other tools see one line.
        self._line += line.endswith("\n")

    def _read(self):
        """The next line; nothing at the end, or where enough was read."""
        try:
            line = self._text.readline(LONGEST_LINE + 1)
        except UnicodeDecodeError:
            raise Failure.unreadable(
                f"{self.path}: not valid UTF-8 text; save the table as UTF-8"
            ) from None
        if len(line) > LONGEST_LINE:
            raise Failure.unreadable(
                f"{self.path}: line {self._line} is longer than {LONGEST_LINE} characters"
            )
        self._characters += len(line)
        self._lines_read += 1
        if line and (self._characters > MOST or self._lines_read > MOST_LINES):
            self.cut = True
            return ""
        return line


# What the reader says, in words for who has the file before them.
WHY = {
    "unexpected end of data": "a cell's quote is opened and never closed",
    """',' expected after '"'""": "text stands behind a cell's closing quote; a quote in a cell is written twice",
    "field larger than field limit (131072)": "a cell is longer than 131072 characters; is a quote never closed?",
}


def _likely(line):
    """The delimiter that stands most often in the header, outside quotes."""
    outside = "".join(line.split('"')[::2])
    often = {name: outside.count(sign) for name, sign in DELIMITERS.items()}
    return max(often, key=often.get) if any(often.values()) else "comma"


def _names(header):
    """Names for the columns of a header, each one once."""
    names, times = {}, {}
    for number, cell in enumerate(header, start=1):
        name = plain = cell.strip()[:LONGEST_NAME] or f"column {number}"
        while name in names:
            times[plain] = times.get(plain, 1) + 1
            name = f"{plain} ({times[plain]})"
        names[name] = None
    return list(names)
