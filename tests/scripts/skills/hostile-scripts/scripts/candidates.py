"""Imports modules of the skill that have a second candidate: in the skill's folder, or in the library. Before
that, it moves the files and folders of its arguments away."""
import os
import sys

for path in sys.argv[1:]:
    os.rename(path, "moved")
for name in ("helper", "colorsys", "helpers.one", "parts.two"):
    try:
        __import__(name)
        print(name, sys.modules[name].NAME)
    except ImportError as error:
        print(name, type(error).__name__, error)
