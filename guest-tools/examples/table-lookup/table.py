"""Reads a CSV file row by row: its columns, its rows, and the line at which each row starts."""

import csv
import io

from skillhost_kit import Failure

# The maximum numbers of characters and of lines to read. Guards against: a call that exceeds its time
# limit.
MAX_CHARS = 8 << 20
MAX_LINES = 200_000
# The maximum number of characters in a line. Guards against: a file without line breaks, which would
# fill the memory.
MAX_LINE_CHARS = 1 << 20
# The maximum number of columns, and of characters in a column's name. Guards against: an answer that
# has mostly names.
MAX_COLUMNS = 1000
MAX_NAME_CHARS = 100
# The maximum number of columns to list when a column is not found.
MAX_LISTED_COLUMNS = 50

# The delimiters between cells. If the header has the same number of two delimiters, the first of them
# in this list is used, because names contain commas more often than tabs.
DELIMITERS = {"tab": "\t", "semicolon": ";", "pipe": "|", "comma": ","}


class Table:
    """The rows of a file, in order. They can be read once."""

    def __init__(self, file, path, delimiter=None):
        self.path = path
        # True if a limit was reached before the end of the file.
        self.is_truncated = False
        # The line at which the next row starts. Only line feeds end a line.
        self._line = 1
        self._characters = self._lines_read = 0
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        first = self._skip_empty_lines()
        if delimiter is None:
            delimiter = _likely_delimiter(first)
        # Strict: an unclosed quote is an error, instead of a cell with the rest of the file.
        self._reader = csv.reader(
            self._lines(first), delimiter=DELIMITERS[delimiter], strict=True
        )
        header = self._next()
        if header is None:
            raise Failure.unreadable(f"{path}: has no header; the first line must name the columns")
        if len(header[1]) > MAX_COLUMNS:
            raise Failure.unreadable(f"{path}: has more than {MAX_COLUMNS} columns")
        self.columns = _names(header[1])

    def rows(self):
        """Yields the line and the cells of each row."""
        while (row := self._next()) is not None:
            yield row

    def find(self, name):
        """Returns the number of a column. Prefers an exact match to one that ignores case."""
        for key in (str.strip, lambda text: text.strip().casefold()):
            for number, column in enumerate(self.columns):
                if key(column) == key(name):
                    return number
        listed = ", ".join(self.columns[:MAX_LISTED_COLUMNS])
        if len(self.columns) > MAX_LISTED_COLUMNS:
            listed += f" and {len(self.columns) - MAX_LISTED_COLUMNS} more"
        raise Failure.not_found(f"{self.path} has no column '{name}'. It has: {listed}.")

    def _next(self):
        """Returns the line and the cells of the next row, or None. Skips empty lines."""
        while True:
            line = self._line
            try:
                cells = next(self._reader, None)
            except csv.Error as error:
                if self.is_truncated:
                    # The row continues after the limit.
                    return None
                raise self._invalid_row(line, REASONS.get(str(error), str(error))) from None
            except MemoryError:
                raise self._invalid_row(line, "it is too large") from None
            if cells is None:
                return None
            if cells:
                return line, cells

    def _invalid_row(self, line, reason):
        return Failure.unreadable(f"{self.path}: the row that starts at line {line}: {reason}")

    def _skip_empty_lines(self):
        """Returns the first line that is not empty, without a byte order mark."""
        line = self._read().removeprefix("\ufeff")
        while line and not line.strip("\r\n"):
            self._count(line)
            line = self._read()
        return line

    def _lines(self, line):
        """Yields this line and all lines after it."""
        while line:
            self._count(line)
            yield line
            line = self._read()

    def _count(self, line):
        # Do not count a carriage return alone: for other tools, it does not end a line.
        self._line += line.endswith("\n")

    def _read(self):
        """Returns the next line, or an empty text at the end of the file or at a limit."""
        try:
            line = self._text.readline(MAX_LINE_CHARS + 1)
        except UnicodeDecodeError:
            raise Failure.unreadable(
                f"{self.path}: not valid UTF-8 text; save the table as UTF-8"
            ) from None
        if len(line) > MAX_LINE_CHARS:
            raise Failure.unreadable(
                f"{self.path}: line {self._line} is longer than {MAX_LINE_CHARS} characters"
            )
        self._characters += len(line)
        self._lines_read += 1
        if line and (self._characters > MAX_CHARS or self._lines_read > MAX_LINES):
            self.is_truncated = True
            return ""
        return line


# The reasons for the errors of `csv`, for the author of the file.
REASONS = {
    "unexpected end of data": "a cell's quote is opened and never closed",
    """',' expected after '"'""": "there is text after a cell's closing quote; write a quote in a cell twice",
    "field larger than field limit (131072)": "a cell is longer than 131072 characters; is a quote never closed?",
}


def _likely_delimiter(line):
    """Returns the most frequent delimiter of the header, outside quotes."""
    unquoted = "".join(line.split('"')[::2])
    counts = {name: unquoted.count(delimiter) for name, delimiter in DELIMITERS.items()}
    return max(counts, key=counts.get) if any(counts.values()) else "comma"


def _names(header):
    """Returns unique names for the columns of a header."""
    names, counts = {}, {}
    for number, cell in enumerate(header, start=1):
        name = base = cell.strip()[:MAX_NAME_CHARS] or f"column {number}"
        while name in names:
            counts[base] = counts.get(base, 1) + 1
            name = f"{base} ({counts[base]})"
        names[name] = None
    return list(names)
