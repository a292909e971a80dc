"""Finds the rows that have one of the given values."""

import difflib

# The maximum number of keys to keep for proposals, and of characters in a key. Guards against:
# comparing every key of a large table.
MAX_KEYS = 500
MAX_KEY_CHARS = 40
# The maximum number of keys to propose for a value.
MAX_PROPOSED = 5


class Lookup:
    """Checks each row once, and keeps the rows with a given value."""

    def __init__(self, values, limit):
        self.values = list(dict.fromkeys(value.strip() for value in values))
        self.limit = limit
        # The number of checked rows.
        self.searched = 0
        # The spellings of each value in the table, with their rows, by the value without case.
        self._spellings = {value.casefold(): {} for value in self.values}
        self._keys = {}

    def check(self, line, cells, key):
        """Keeps a row if its key is one of the values."""
        self.searched += 1
        key = key.strip()
        spellings = self._spellings.get(key.casefold())
        if spellings is not None:
            spellings.setdefault(key, Rows(self.limit)).add((self.searched, line, cells))
        elif len(self._keys) < MAX_KEYS and key and len(key) <= MAX_KEY_CHARS:
            self._keys[key] = None

    def matches(self):
        """Returns the lines and cells of the matching rows in the table's order, up to the limit, and
        the number of all matching rows. If the table has a value exactly, other spellings do not
        match."""
        chosen = {}
        for value in self.values:
            spellings = self._spellings[value.casefold()]
            if value in spellings:
                chosen[value] = spellings[value]
            else:
                chosen.update(spellings)
        kept = sorted(row for rows in chosen.values() for row in rows.kept)[: self.limit]
        row_count = sum(rows.count for rows in chosen.values())
        return [(line, cells) for _, line, cells in kept], row_count

    def missing(self):
        """Returns the values that no row has."""
        return [value for value in self.values if not self._spellings[value.casefold()]]

    def similar(self, value):
        """Returns kept keys that are similar to a value."""
        folded = {key.casefold(): key for key in reversed(self._keys)}
        similar = difflib.get_close_matches(value.casefold()[:MAX_KEY_CHARS], folded, MAX_PROPOSED)
        return [folded[key] for key in similar]


class Rows:
    """The rows with one key. Counts all of them, and keeps the first ones."""

    def __init__(self, limit):
        self.count = 0
        self.kept = []
        self._limit = limit

    def add(self, row):
        self.count += 1
        if len(self.kept) < self._limit:
            self.kept.append(row)
