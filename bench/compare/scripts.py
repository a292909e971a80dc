#!/usr/bin/env python3
"""Compares a skill's script in the sandbox, called over stdin and stdout, with a native `python3`
process. Both take turns on one machine. Prints a table.

    cargo build --release; bench/compare/scripts.py [--check] [--runner COMPONENT] [PROGRAM]

The script parses arguments, reads a file of 4 KB, and prints JSON. Without `--runner`, builds the
runner of guest-tools/runners/python. `--check` fails if a figure misses its bound.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from clients import Bare, check_same
from figures import all_in_turns, side_figures
from languages import calls, first_call, growth, throughput

ROUNDS, TIMES = 20, 5
SCRIPT = """\
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("file")
text = open(parser.parse_args().file).read()
print(json.dumps({"bytes": len(text), "words": len(text.split())}))
"""
TEXT = "four letters and a space " * 164
CALL = (
    "run_skill_script",
    {"skill_name": "reports", "script": "scripts/count.py", "args": ["data.txt"]},
    (False, json.dumps({"bytes": len(TEXT), "words": len(TEXT.split())}) + "\n"),
)
CONFIGURATION = """\
skills = ["skills"]
tools = ["tools"]
compile_time = "10m"
[grants."run_skill_script.wasm"]
skills = ["reports"]
scripts = ["scripts/**/*.py"]
view = "copy-on-write"
limits.memory = "256MiB"
"""


def prepare(program, runner, folder):
    if runner is None:
        project = pathlib.Path(__file__).resolve().parents[2] / "guest-tools/runners/python"
        print("skillhost build %s …" % project, file=sys.stderr)
        subprocess.run([program, "build", project], check=True, capture_output=True)
        runner = project / "dist/run_skill_script.wasm"
    skill = folder / "skills/reports"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: reports\ndescription: Counts words.\n---\n")
    (skill / "scripts/count.py").write_text(SCRIPT)
    (skill / "data.txt").write_text(TEXT)
    (folder / "tools").mkdir()
    shutil.copy(runner, folder / "tools/run_skill_script.wasm")
    (folder / "skillhost.toml").write_text(CONFIGURATION)
    return [program, "serve", "--config", str(folder / "skillhost.toml")]


def native(python, skill):
    command = [python, *(CALL[1]["script"], *CALL[1]["args"])]

    def run(times):
        taken = []
        for _ in range(times):
            start = time.perf_counter_ns()
            result = subprocess.run(command, cwd=skill, stdin=subprocess.DEVNULL, capture_output=True,
                                    encoding="utf-8", check=True)
            taken.append(time.perf_counter_ns() - start)
            check_same("python3", (False, result.stdout), CALL[2])
        return taken
    return run


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", nargs="?", default=str(here / "target/release/skillhost"))
    parser.add_argument("--runner", help="the component of the runner")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    # Use the interpreter itself, not a script that looks for one.
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    with tempfile.TemporaryDirectory(prefix="skillhost-scripts-") as folder:
        folder = pathlib.Path(folder)
        command = prepare(str(pathlib.Path(options.program).resolve()), options.runner, folder)
        with contextlib.closing(Bare(command)) as server:
            check_same(CALL[0], server.call(*CALL[:2]), CALL[2])
            sides = [calls(server, *CALL[:2]), native(python, folder / "skills/reports")]
            ours, theirs = [side_figures("", rounds)["median_ns"] / 1e6 for rounds in
                            all_in_turns(sides, ROUNDS, TIMES, lambda text: None)]
        figures = [
            ("a call, ms", ours, 10),
            ("python%d.%d, ms" % sys.version_info[:2], theirs, None),
            ("a call, as a multiple of python3's", ours / theirs, 0.25),
            ("first call after a start, ms", first_call(command, CALL), 150),
            ("growth after a hundred calls, MiB", growth(command, CALL), 32),
            # The inverse of the throughput, because less is better in all other figures.
            ("throughput of two servers / of one", 1 / throughput(command, CALL), 1 / 0.9),
        ]
    wrong = 0
    for what, value, bound in figures:
        wrong += bound is not None and value > bound
        print("%-36s%8.2f%s" % (what, value, "" if bound is None else "   at most %.4g" % bound))
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
