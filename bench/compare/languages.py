#!/usr/bin/env python3
"""What a call costs of the tools that `skillhost new` makes, beside a read by a built-in
tool, which is Rust. Over stdin and stdout, in turns on one machine. Prints a table.

    cargo build --release; bench/compare/languages.py [--check] [PROGRAM]

Needs Python 3, Node.js with npm, and their registries, for the compilers. `--check` fails
if a figure misses its bound.
"""
import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from clients import Bare, said, same
from figures import all_in_turns, side

LANGUAGES = ("python", "javascript")
ROUNDS, TIMES = 20, 15
AT_ONCE, BURST, STARTS = 16, 400, 5
SKILL = "sailing-terms"
RUST = ("read_file_in_skill", {"skill_name": SKILL, "file_path": "glossary.txt"})
TERM = ({"skill_name": SKILL, "term": "halyard"}, (False, "a rope that hoists a sail"))


def build(program, folder):
    """A project for each language, and one configuration for all."""
    lines = ['skills = ["python-tool/skills"]', 'compile_time = "10m"', 'tools = %s' % [
        "%s-tool/dist" % language for language in LANGUAGES]]
    for language in LANGUAGES:
        name = "%s-tool" % language
        for command in (["new", name, "--lang", language], ["build", name]):
            print("skillhost %s …" % " ".join(command), file=sys.stderr)
            subprocess.run([program, *command], cwd=folder, check=True, capture_output=True)
        lines += ['[grants."%s_tool.wasm"]' % language, 'skills = ["%s"]' % SKILL]
    file = folder / "skillhost.toml"
    file.write_text("\n".join(lines) + "\n")
    return [program, "serve", "--config", str(file)]


def calls(server, tool, arguments):
    def run(times):
        taken = []
        for _ in range(times):
            start = time.perf_counter_ns()
            server.call(tool, arguments)
            taken.append(time.perf_counter_ns() - start)
        return taken
    return run


# A call is the name of a tool, its arguments, and what it answers.


def first_call(command, call):
    """Milliseconds from a server's start to a result, with compiled code in the cache."""
    tool, arguments, answer = call
    taken = []
    for _ in range(STARTS):
        start = time.perf_counter()
        with contextlib.closing(Bare(command)) as server:
            same(tool, server.call(tool, arguments), answer)
        taken.append((time.perf_counter() - start) * 1e3)
    return sorted(taken)[STARTS // 2]


def resident(server):
    with open("/proc/%d/status" % server.process.pid, encoding="ascii") as status:
        return int(re.search(r"^VmRSS:\s*(\d+) kB", status.read(), re.MULTILINE)[1]) / 1024


def growth(command, call):
    """Mebibytes that a hundred calls add to what a server holds after the first."""
    with contextlib.closing(Bare(command)) as server:
        server.call(*call[:2])
        before = resident(server)
        calls(server, *call[:2])(100)
        return resident(server) - before


def at_once(server, call, count):
    """Calls a second, so many at a time: each answer makes room for the next call."""
    tool, arguments, meaning = call
    lines = [server.request("tools/call", {"name": tool, "arguments": arguments})
             for _ in range(BURST)]
    start = time.perf_counter()
    for line in lines[:count]:
        server.send(line)
    answers = []
    for line in lines[count:]:
        answers.append(server.answered())
        server.send(line)
    answers += [server.answered() for _ in lines[:count]]
    taken = time.perf_counter() - start
    for answer in answers:
        same(tool, said(json.loads(answer)["result"]), meaning)
    return BURST / taken


def throughput(command, call):
    """Calls a second of one server with sixteen at once, against two with eight each."""
    ratios = []
    with contextlib.ExitStack() as open_:
        one, *two = [open_.enter_context(contextlib.closing(Bare(command))) for _ in range(3)]
        pool = open_.enter_context(concurrent.futures.ThreadPoolExecutor(2))
        for server in (one, *two):
            at_once(server, call, AT_ONCE)
        for _ in range(2 * STARTS + 1):
            ours = at_once(one, call, AT_ONCE)
            theirs = sum(pool.map(lambda server: at_once(server, call, AT_ONCE // 2), two))
            ratios.append(ours / theirs)
    return sorted(ratios)[STARTS]


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", default=str(here / "target/release/skillhost"))
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="skillhost-languages-") as folder:
        command = build(str(pathlib.Path(asked.program).resolve()), pathlib.Path(folder))
        asked_for = [("%s_tool" % language, *TERM) for language in LANGUAGES]
        with contextlib.closing(Bare(command)) as server:
            for tool, arguments, meaning in asked_for:
                same(tool, server.call(tool, arguments), meaning)
            sides = [calls(server, *call[:2]) for call in asked_for] + [calls(server, *RUST)]
            taken = [side("", rounds)["median_ns"] / 1e3 for rounds in
                     all_in_turns(sides, ROUNDS, TIMES, lambda text: None)]
        print("%-12s%12s%12s%18s%18s%20s" % (
            "", "a call, µs", "of Rust's", "first call, ms", "100 calls, MiB", "16 at once, of 2"))
        print("%-12s%12.0f%12s" % ("rust", taken[-1], ""))
        for language, call, micros in zip(LANGUAGES, asked_for, taken):
            first, added = first_call(command, call), growth(command, call)
            of_two = throughput(command, call)
            print("%-12s%12.0f%12.1f%18.1f%18.1f%20.2f" % (
                language, micros, micros / taken[-1], first, added, of_two))
            for what, is_met in (("the first call", first <= 150), ("the memory", added <= 32),
                                 ("sixteen at once", of_two >= 0.9)):
                wrong += [] if is_met else ["%s: %s misses its bound" % (language, what)]
    print("\n".join(wrong), file=sys.stderr, end="\n" * bool(wrong))
    return 1 if asked.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
