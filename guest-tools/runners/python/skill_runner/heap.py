"""The memory that a call starts from. The host sets back each page that a call writes, so a call costs
what it touches: the build does here what calls would do again and again."""

import atexit
import gc
import os
import sys

from . import execute, lacks, modules
from .streams import Streams

# Rounds after which the interpreter has chosen its fast instructions, and filled its caches.
ROUNDS = 40
# Bytes at the end of the memory that are free when a call starts.
ROOM = 1 << 20
# What lies in the holes of the memory.
FILLERS = []
# What most scripts do.
USUAL = b"""
import argparse, csv, io, json, os, re, sys
from datetime import datetime
from pathlib import Path

def main():
    parser = argparse.ArgumentParser(description="Counts words")
    parser.add_argument("file", help="a file")
    parser.add_argument("--format", choices=["json", "text"], default="json")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    with open(args.file, encoding="utf-8") as file:
        text = file.read()
    text = Path(args.file).read_text()
    words = re.findall(r"\\w+", text)
    rows = list(csv.DictReader(io.StringIO("a,b\\n1,2\\n")))
    path = os.path.join(os.path.dirname(args.file), "x")
    found = {"words": len(words), "rows": rows, "path": path, "is": os.path.exists(path)}
    found["again"] = json.loads(json.dumps(found))
    print(json.dumps(found, indent=2))
    print(f"{datetime(2000, 1, 1):%Y-%m-%d} {sorted(set(words))[:3]}", file=sys.stderr)
    return 0

if __name__ == "__main__":
    sys.exit(main())
"""


def settle(baked):
    """Leaves the memory as a call wants to find it."""
    baked.settle()
    _warm(baked)
    baked.settle()
    execute.forget()
    _fill_holes()


def _warm(baked):
    """Runs what most scripts do."""
    argv, path, streams = list(sys.argv), list(sys.path), (sys.stdin, sys.stdout, sys.stderr)
    folder = os.path.dirname(__file__)
    # What modules have registered for a script's end stays for calls: running it would forget it.
    run_at_exit, atexit._run_exitfuncs = atexit._run_exitfuncs, lambda: None
    for _ in range(ROUNDS):
        done = execute.run(baked, folder, "usual.py", USUAL, ["__init__.py"], b"")
        assert done.exit_code == 0, done.text()
    atexit._run_exitfuncs = run_at_exit
    lacks.NOTES.lines.clear()
    Streams.current = None
    modules.Skill.mount = ""
    sys.argv[:], sys.path[:] = argv, path
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = streams


def _fill_holes():
    """Fills the holes that imports left between objects: new objects in a thousand holes are a thousand
    pages, and at the end of the memory a few."""
    gc.collect()
    end = id(bytes(ROOM))
    size = ROOM
    while size > 2:
        size = size * 3 // 4
        while id(filler := bytes(size)) < end:
            FILLERS.append(filler)
    while id(filler := object()) < end:
        FILLERS.append(filler)
    # What was made by now lives as long as the component: a collection need not look at it.
    gc.freeze()
