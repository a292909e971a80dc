"""What is answered: a text for the model, and a record for programs, both bounded."""

import json

from skillhost_kit import Failure, Output

# Characters of a cell, and of all names and cells together. Meets: an answer that fills the
# model's memory.
LONGEST_CELL = 2000
MOST = 40_000
# Values without a row for which others are proposed.
HELPED = 3


class Answer:
    """The answer of a lookup that is done."""

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
                            "description": "The line of the file that the row starts at",
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
        self.rows, self.found = lookup.found()
        self.missing = lookup.missing()
        self.left = MOST
        # Cells were left out, or parts of them.
        self.cut = False

    def output(self, given, whole):
        """The columns of these numbers; with `whole`, also cells that have no column."""
        if not self.found and not self.table.cut:
            raise Failure.not_found("\n".join(self._no_rows()))
        rows = []
        for line, cells in self.rows:
            if self.left <= 0:
                break
            rows.append({"line": line, "cells": self._cells(cells, given, whole)})
        details = {
            "column": self.column,
            "rows": rows,
            "rows_found": self.found,
            "rows_searched": self.lookup.seen,
            "missing": self.missing,
            "truncated": self.table.cut or self.cut or len(rows) < self.found,
        }
        return Output(self._text(rows), details)

    def _cells(self, cells, given, whole):
        numbers = list(given)
        columns = self.table.columns
        if whole:
            numbers += range(len(columns), len(cells))
        shown = {}
        for number in numbers:
            name = columns[number] if number < len(columns) else self._unnamed(number)
            cell = cells[number] if number < len(cells) else None
            if cell is not None and len(cell) > LONGEST_CELL:
                cell = cell[:LONGEST_CELL] + "…"
                self.cut = True
            self.left -= len(name) + len(cell or "")
            if self.left <= 0:
                self.cut = True
                break
            shown[name] = cell
        return shown

    def _unnamed(self, number):
        """A name for a cell that is beyond the header."""
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
                lines.append(f"{_shown(name)}: {_shown(cell)}".rstrip())
            blocks.append("\n".join(lines))
        blocks.append("\n".join(self._end(rows)))
        return "\n\n".join(blocks)

    def _end(self, rows):
        searched = f"{self.lookup.seen} searched"
        if len(rows) < self.found:
            lines = [f"{len(rows)} of {self.found} rows; {searched}"]
            lines.append("There are more rows: raise `limit`, or ask for fewer values or `columns`.")
        else:
            lines = [f"{self.found} {'row' if self.found == 1 else 'rows'}; {searched}"]
        if self.cut:
            lines.append("Cells are cut or left out: ask for fewer rows or `columns`.")
        if self.table.cut:
            lines.append(f"Only the beginning of {self.table.path} was searched: it is too large.")
        if self.missing:
            lines += self._no_rows()
        return lines

    def _no_rows(self):
        """Which values no row has, and what there is that is like them."""
        values = ", ".join(_quoted(value) for value in self.missing)
        where = "That part" if self.table.cut else self.table.path
        lines = [f"{where} has no row with {values} in the column '{self.column}'."]
        for value in self.missing[:HELPED]:
            if near := self.lookup.near(value):
                near = ", ".join(_quoted(key) for key in near)
                lines.append(f"Like {_quoted(value)} there is: {near}.")
        return lines


def _shown(text):
    """A name or a cell on one line: it is put into quotes where it has several."""
    if text is None:
        return "(none)"
    return json.dumps(text, ensure_ascii=False) if "\n" in text or "\r" in text else text


def _quoted(text):
    return f"'{text}'"
