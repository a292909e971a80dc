"""Prepares the memory with which each call starts. After a call, the host restores each page that the call
wrote, so a call costs as much as it writes. This module does at the build the work that calls would repeat."""

import atexit
import gc
import os
import sys

from . import execute, unsupported, modules
from .streams import Streams

# The number of runs after which the interpreter has specialized its instructions and filled its caches.
WARM_UP_RUNS = 40
# The number of free bytes at the end of the memory when a call starts.
FREE_BYTES = 1 << 20
# The objects that fill the holes of the memory.
FILLERS = []
# A script that does what most scripts do.
TYPICAL_SCRIPT = b"""
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
    """Prepares the memory at the end of the build."""
    baked.settle()
    _warm_up(baked)
    baked.settle()
    execute.reset_build_state()
    _fill_holes()


def _warm_up(baked):
    """Runs a typical script several times."""
    argv, path, streams = list(sys.argv), list(sys.path), (sys.stdin, sys.stdout, sys.stderr)
    folder = os.path.dirname(__file__)
    # Running the functions of `atexit` would unregister them, and calls need them.
    run_at_exit, atexit._run_exitfuncs = atexit._run_exitfuncs, lambda: None
    for _ in range(WARM_UP_RUNS):
        result = execute.run(baked, folder, "typical.py", TYPICAL_SCRIPT, ["__init__.py"], b"")
        assert result.exit_code == 0, result.text()
    atexit._run_exitfuncs = run_at_exit
    unsupported.NOTES.lines.clear()
    Streams.current = None
    modules.Skill.mount = ""
    sys.argv[:], sys.path[:] = argv, path
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = streams


def _fill_holes():
    """Fills the holes that imports left between objects. Without this, a call's new objects would be spread
    over a thousand pages; at the end of the memory they need only a few."""
    gc.collect()
    end = id(bytes(FREE_BYTES))
    size = FREE_BYTES
    while size > 2:
        size = size * 3 // 4
        while id(filler := bytes(size)) < end:
            FILLERS.append(filler)
    while id(filler := object()) < end:
        FILLERS.append(filler)
    # The objects of the build live as long as the component, so the garbage collector can skip them.
    gc.freeze()
