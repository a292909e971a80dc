"""Generate related tables of test data from templates.

    python3 scripts/generate.py --seed 7 --out /tmp/data \
        templates/users.json=50 templates/orders.json=120

The same templates, counts and seed give the same files. Exit status: 0 files
written, 1 a template is wrong, 2 wrong usage.
"""

import argparse
import csv
import datetime
import json
import pathlib
import random
import sys
import unicodedata

NAME_PARTS = pathlib.Path(__file__).resolve().parent.parent / "data" / "name_parts.csv"


class Wrong(Exception):
    """A template cannot be followed; the text says why."""


def name_parts():
    parts = {}
    with open(NAME_PARTS, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            parts.setdefault(row["part"], []).append(row["text"])
    return parts


class Maker:
    """Makes one table; knows the tables that were made before it."""

    def __init__(self, template, rng, tables, parts):
        self.columns = template["columns"]
        self.rng, self.tables, self.parts = rng, tables, parts
        self.used = set()  # mail addresses given out in this table

    def rows(self, count):
        return [self.row(number) for number in range(count)]

    def row(self, number):
        row, targets = {}, {}
        for column in self.columns:
            make = getattr(self, "make_" + column["kind"], None)
            if make is None:
                raise Wrong(f"column '{column['name']}': unknown kind '{column['kind']}'")
            wanted = all(row[key] in values for key, values in column.get("only_if", {}).items())
            left_empty = self.rng.random() < column.get("empty", 0)
            value = make(column, number, row, targets)
            row[column["name"]] = value if wanted and not left_empty else ""
        return row

    def make_sequence(self, column, number, row, targets):
        return column.get("start", 1) + number

    def make_person_name(self, column, number, row, targets):
        pick = lambda part: self.rng.choice(self.parts[part])
        return f"{pick('given')}{pick('given_end')} {pick('family')}{pick('family_end')}"

    def make_email(self, column, number, row, targets):
        plain = unicodedata.normalize("NFKD", row[column["from"]].casefold())
        local = ".".join("".join(c for c in word if c.isascii() and c.isalnum()) for word in plain.split())
        address, extra = f"{local}@{column['domain']}", 1
        while address in self.used:
            extra += 1
            address = f"{local}{extra}@{column['domain']}"
        self.used.add(address)
        return address

    def make_phone(self, column, number, row, targets):
        return f"555-01{self.rng.randrange(100):02d}"

    def make_choice(self, column, number, row, targets):
        return self.rng.choices(list(column["values"]), weights=column["values"].values())[0]

    def make_date(self, column, number, row, targets):
        first = datetime.date.fromisoformat(column["from"])
        last = datetime.date.fromisoformat(column["to"])
        return first + datetime.timedelta(days=self.rng.randint(0, (last - first).days))

    def make_date_after(self, column, number, row, targets):
        start = (targets[column["of"]] if "of" in column else row)[column["column"]]
        if start == "":
            return ""
        return start + datetime.timedelta(days=self.rng.randint(0, column["days"]))

    def make_reference(self, column, number, row, targets):
        if column["table"] not in self.tables:
            raise Wrong(f"column '{column['name']}': table '{column['table']}' must be generated first")
        others = self.tables[column["table"]]
        if not others:
            raise Wrong(f"column '{column['name']}': table '{column['table']}' has no rows")
        # A power above 1 sends most references to the first rows.
        index = int(len(others) * self.rng.random() ** column.get("skew", 1.0))
        targets[column["name"]] = others[index]
        return others[index][column["column"]]

    def make_amount(self, column, number, row, targets):
        zero = self.rng.random() < column.get("zero", 0)
        value = min(self.rng.lognormvariate(0, 0.8) * column["typical"], column["largest"])
        return "0.00" if zero else f"{value:.2f}"


def write(rows, table, folder, kind):
    path = folder / f"{table}.{kind}"
    if kind == "json":
        path.write_text(json.dumps(rows, ensure_ascii=False, indent=2, default=str) + "\n", encoding="utf-8")
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
            writer.writeheader()
            writer.writerows(rows)
    print(f"{path}: {len(rows)} rows")


def main():
    parser = argparse.ArgumentParser(description="Generate related tables of test data.")
    parser.add_argument("tables", nargs="+", metavar="TEMPLATE=ROWS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--format", choices=["csv", "json"], default="csv")
    options = parser.parse_args()
    rng, parts, tables = random.Random(options.seed), name_parts(), {}
    try:
        for argument in options.tables:
            path, _, count = argument.rpartition("=")
            if not path or not count.isdigit():
                parser.error(f"'{argument}' is not TEMPLATE=ROWS")
            template = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
            tables[template["table"]] = Maker(template, rng, tables, parts).rows(int(count))
        options.out.mkdir(parents=True, exist_ok=True)
        for table, rows in tables.items():
            write(rows, table, options.out, options.format)
    except (OSError, ValueError, Wrong) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyError as key:
        print(f"error: a template lacks {key}, or names a column that is not there", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
