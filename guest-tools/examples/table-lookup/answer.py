"""Formats the answer: a text for the model and a record for programs, within limits."""

import json

from skillhost_kit import Failure, Output

# The maximum number of characters in a cell, and in all names and cells together. Guards against: an
# answer that fills the model's context.
MAX_CELL_CHARS = 2000
MAX_CHARS = 40_000
# The maximum number of missing values for which to propose similar ones.
MAX_PROPOSALS = 3


class Answer:
    """The answer with the results of a lookup."""

    SCHEMA = {
        "type": "object",
        "properties": {
            "column": {"type": "string", "description": "The key column"},
            "rows": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "line": {
                            "type": "integer",
                            "minimum": 1,
                            "description": "The line of the file at which the row starts",
                        },
                        "cells": {
                            "type": "object",
                            "description": "The cells by column; null where the row is too short",
                            "additionalProperties": {"type": ["string", "null"]},
                        },
                    },
                    "required": ["line", "cells"],
                },
            },
            "rows_found": {"type": "integer", "minimum": 0},
            "rows_searched": {"type": "integer", "minimum": 0},
            "missing": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Values that no row has",
            },
            "truncated": {
                "type": "boolean",
                "description": "Whether there is more than this: rows, cells, or file",
            },
        },
        "required": ["column", "rows", "rows_found", "rows_searched", "missing", "truncated"],
    }

    def __init__(self, table, column, lookup):
        self.table = table
        self.column = column
        self.lookup = lookup
        self.rows, self.row_count = lookup.matches()
        self.missing = lookup.missing()
        self.chars_left = MAX_CHARS
        # True if cells, or parts of them, are left out.
        self.is_truncated = False

    def output(self, numbers, is_whole_row):
        """Returns the answer with the columns of these numbers. `is_whole_row` adds the cells beyond
        the header."""
        if not self.row_count and not self.table.is_truncated:
            raise Failure.not_found("\n".join(self._missing_lines()))
        rows = []
        for line, cells in self.rows:
            if self.chars_left <= 0:
                break
            rows.append({"line": line, "cells": self._cells(cells, numbers, is_whole_row)})
        details = {
            "column": self.column,
            "rows": rows,
            "rows_found": self.row_count,
            "rows_searched": self.lookup.searched,
            "missing": self.missing,
            "truncated": self.table.is_truncated or self.is_truncated or len(rows) < self.row_count,
        }
        return Output(self._text(rows), details)

    def _cells(self, cells, numbers, is_whole_row):
        numbers = list(numbers)
        columns = self.table.columns
        if is_whole_row:
            numbers += range(len(columns), len(cells))
        by_name = {}
        for number in numbers:
            name = columns[number] if number < len(columns) else self._name_beyond_header(number)
            cell = cells[number] if number < len(cells) else None
            if cell is not None and len(cell) > MAX_CELL_CHARS:
                cell = cell[:MAX_CELL_CHARS] + "…"
                self.is_truncated = True
            self.chars_left -= len(name) + len(cell or "")
            if self.chars_left <= 0:
                self.is_truncated = True
                break
            by_name[name] = cell
        return by_name

    def _name_beyond_header(self, number):
        """Returns a name for a cell beyond the header."""
        name = f"column {number + 1}"
        while name in self.table.columns:
            name += " (beyond the header)"
        return name

    def _text(self, rows):
        path = self.table.path
        blocks = []
        for row in rows:
            lines = [f"{path}, line {row['line']}"]
            for name, cell in row["cells"].items():
                lines.append(f"{_one_line(name)}: {_one_line(cell)}".rstrip())
            blocks.append("\n".join(lines))
        blocks.append("\n".join(self._summary_lines(rows)))
        return "\n\n".join(blocks)

    def _summary_lines(self, rows):
        searched = f"{self.lookup.searched} searched"
        if len(rows) < self.row_count:
            lines = [f"{len(rows)} of {self.row_count} rows; {searched}"]
            lines.append("There are more rows: raise `limit`, or ask for fewer values or `columns`.")
        else:
            lines = [f"{self.row_count} {'row' if self.row_count == 1 else 'rows'}; {searched}"]
        if self.is_truncated:
            lines.append("Cells are cut or left out: ask for fewer rows or `columns`.")
        if self.table.is_truncated:
            lines.append(f"Only the beginning of {self.table.path} was searched: it is too large.")
        if self.missing:
            lines += self._missing_lines()
        return lines

    def _missing_lines(self):
        """Returns lines that name the values without a row, and propose similar values."""
        values = ", ".join(_quoted(value) for value in self.missing)
        subject = "That part" if self.table.is_truncated else self.table.path
        lines = [f"{subject} has no row with {values} in the column '{self.column}'."]
        for value in self.missing[:MAX_PROPOSALS]:
            if similar := self.lookup.similar(value):
                similar = ", ".join(_quoted(key) for key in similar)
                lines.append(f"Similar to {_quoted(value)}: {similar}.")
        return lines


def _one_line(text):
    """Returns a name or a cell on one line. Quotes it if it has several lines."""
    if text is None:
        return "(none)"
    return json.dumps(text, ensure_ascii=False) if "\n" in text or "\r" in text else text


def _quoted(text):
    return f"'{text}'"
