"""Which rows have one of the values that are looked for."""

import difflib

# Distinct keys that are kept to be proposed, and characters of each. Meets: a comparison of every
# key of a large table.
KEPT = 500
LONGEST = 40
# Keys that are proposed.
PROPOSED = 5


class Lookup:
    """Is shown each row once, and keeps those that were looked for."""

    def __init__(self, values, limit):
        self.values = list(dict.fromkeys(value.strip() for value in values))
        self.limit = limit
        # Rows that were looked at.
        self.seen = 0
        # For each value, in lower case: its spellings in the table, and the rows of each.
        self._spellings = {value.casefold(): {} for value in self.values}
        self._keys = {}

    def see(self, line, cells, key):
        self.seen += 1
        key = key.strip()
        spellings = self._spellings.get(key.casefold())
        if spellings is not None:
            spellings.setdefault(key, Rows(self.limit)).add((self.seen, line, cells))
        elif len(self._keys) < KEPT and key and len(key) <= LONGEST:
            self._keys[key] = None

    def found(self):
        """Lines and cells of the rows, in the table's order, no more than the limit, and how many
        there are in all. A value that stands in the table exactly means no other spelling."""
        chosen = {}
        for value in self.values:
            spellings = self._spellings[value.casefold()]
            if value in spellings:
                chosen[value] = spellings[value]
            else:
                chosen.update(spellings)
        kept = sorted(row for rows in chosen.values() for row in rows.kept)[: self.limit]
        found = sum(rows.count for rows in chosen.values())
        return [(line, cells) for _, line, cells in kept], found

    def missing(self):
        """The values that no row has."""
        return [value for value in self.values if not self._spellings[value.casefold()]]

    def near(self, value):
        """Keys that are like a value, of those that were kept."""
        folded = {key.casefold(): key for key in reversed(self._keys)}
        near = difflib.get_close_matches(value.casefold()[:LONGEST], folded, PROPOSED)
        return [folded[key] for key in near]


class Rows:
    """Rows with one key: all are counted, and the first ones kept."""

    def __init__(self, limit):
        self.count = 0
        self.kept = []
        self._limit = limit

    def add(self, row):
        self.count += 1
        if len(self.kept) < self._limit:
            self.kept.append(row)
