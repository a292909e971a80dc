"""Checks a source file that it is given, and runs nothing of it."""
import ast
import sys

for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    print(path, [type(it).__name__ for it in tree.body])
