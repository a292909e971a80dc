"""Differences between two files."""
import difflib

old, new = (open(f"data/{name}.txt").read().splitlines(keepends=True) for name in ("old", "new"))
print("".join(difflib.unified_diff(old, new, "old", "new")))
print(difflib.get_close_matches("gama", ["alpha", "gamma", "delta"]), round(difflib.SequenceMatcher(None, "abcd", "bcde").ratio(), 3))
