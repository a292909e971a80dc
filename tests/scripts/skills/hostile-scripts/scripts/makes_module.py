"""Imports a module that it makes, and one that it moves to another name."""
import os
import sys

for make in (
    lambda: open("scripts/made.py", "w").write("print('from the made')"),
    lambda: os.rename("scripts/helper.py", "scripts/moved.py"),
):
    make()
sys.path.insert(0, "scripts")
for name in ("made", "moved"):
    try:
        __import__(name)
    except ImportError as error:
        print(error)
import made  # noqa: E402, F401: it is made above
