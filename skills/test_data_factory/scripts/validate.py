"""Check generated tables against their templates.

    python3 scripts/validate.py /tmp/data templates/users.json templates/orders.json

Reads <table>.csv or <table>.json from the folder. Exit status: 0 all good,
1 problems found (one line each), 2 wrong usage.
"""

import csv
import json
import pathlib
import sys

MOST_LINES = 20


def load(folder, table):
    as_csv, as_json = folder / f"{table}.csv", folder / f"{table}.json"
    if as_csv.exists():
        with open(as_csv, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    rows = json.loads(as_json.read_text(encoding="utf-8"))
    return [{key: str(value) for key, value in row.items()} for row in rows]


def problems(template, tables):
    rows = tables[template["table"]]
    for column in template["columns"]:
        name, kind = column["name"], column["kind"]
        seen = set()
        for number, row in enumerate(rows, start=1):
            value = row.get(name)
            where = f"{template['table']} row {number}, {name}"
            if value is None:
                yield f"{where}: the column is missing"
                continue
            expected = all(row.get(key) in values for key, values in column.get("only_if", {}).items())
            if value == "":
                if expected and column.get("empty", 0) == 0:
                    yield f"{where}: empty"
                continue
            if not expected:
                yield f"{where}: must be empty here, is '{value}'"
            if kind in ("sequence", "email"):
                if value in seen:
                    yield f"{where}: '{value}' is there twice"
                seen.add(value)
            if kind == "choice" and value not in column["values"]:
                yield f"{where}: '{value}' is not an allowed value"
            if kind == "date" and not column["from"] <= value <= column["to"]:
                yield f"{where}: {value} is out of range"
            if kind == "amount" and not 0 <= as_number(value) <= column["largest"]:
                yield f"{where}: {value} is out of range"
            if kind == "reference" and target(column, row, tables) is None:
                yield f"{where}: no {column['table']} row has {column['column']} '{value}'"
            if kind == "date_after":
                yield from too_early(column, row, template, tables, where)


def as_number(text):
    try:
        return float(text)
    except ValueError:
        return float("nan")  # lies in no range


def target(reference, row, tables):
    for other in tables[reference["table"]]:
        if other[reference["column"]] == row[reference["name"]]:
            return other
    return None


def too_early(column, row, template, tables, where):
    base = row
    if "of" in column:
        reference = next(c for c in template["columns"] if c["name"] == column["of"])
        base = target(reference, row, tables)
    # Dates are ISO 8601, so comparing the text compares the dates.
    if base is not None and row[column["name"]] < base[column["column"]]:
        yield f"{where}: {row[column['name']]} is before {column['column']}"


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    templates = [json.loads(pathlib.Path(path).read_text(encoding="utf-8")) for path in sys.argv[2:]]
    try:
        tables = {template["table"]: load(folder, template["table"]) for template in templates}
    except OSError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    found = [problem for template in templates for problem in problems(template, tables)]
    for problem in found[:MOST_LINES]:
        print(problem)
    if len(found) > MOST_LINES:
        print(f"... and {len(found) - MOST_LINES} more")
    counts = ", ".join(f"{len(rows)} {table}" for table, rows in tables.items())
    print(f"{counts}: " + (f"{len(found)} problem(s)" if found else "all good"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
