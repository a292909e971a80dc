#!/usr/bin/env python3
"""Compares calls of the tools that `skillhost new` creates with a read by a built-in tool, which is
in Rust. All are called over stdin and stdout, in turns on one machine. Prints a table.

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

from clients import Bare, check_same, outcome
from figures import all_in_turns, side_figures

LANGUAGES = ("python", "javascript")
ROUNDS, TIMES = 20, 15
AT_ONCE, BURST, STARTS = 16, 400, 5
SKILL = "sailing-terms"
RUST = ("read_file_in_skill", {"skill_name": SKILL, "file_path": "glossary.txt"})
TERM = ({"skill_name": SKILL, "term": "halyard"}, (False, "a rope that hoists a sail"))


def build(program, folder):
    """Builds a project for each language, with one configuration for all. Returns the command
    of the server."""
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


# A call is the name of a tool, its arguments, and the expected answer.


def first_call(command, call):
    """Returns the milliseconds from a server's start to a result, with compiled code in the
    cache."""
    tool, arguments, answer = call
    taken = []
    for _ in range(STARTS):
        start = time.perf_counter()
        with contextlib.closing(Bare(command)) as server:
            check_same(tool, server.call(tool, arguments), answer)
        taken.append((time.perf_counter() - start) * 1e3)
    return sorted(taken)[STARTS // 2]


def resident(server):
    with open("/proc/%d/status" % server.process.pid, encoding="ascii") as status:
        return int(re.search(r"^VmRSS:\s*(\d+) kB", status.read(), re.MULTILINE)[1]) / 1024


def growth(command, call):
    """Returns the mebibytes that a hundred calls add to a server's memory after its first call."""
    with contextlib.closing(Bare(command)) as server:
        server.call(*call[:2])
        before = resident(server)
        calls(server, *call[:2])(100)
        return resident(server) - before


def at_once(server, call, count):
    """Returns the calls per second with `count` calls at a time: the next call is sent after each
    answer."""
    tool, arguments, expected = call
    lines = [server.request("tools/call", {"name": tool, "arguments": arguments})
             for _ in range(BURST)]
    start = time.perf_counter()
    for line in lines[:count]:
        server.send(line)
    answers = []
    for line in lines[count:]:
        answers.append(server.next_answer())
        server.send(line)
    answers += [server.next_answer() for _ in lines[:count]]
    taken = time.perf_counter() - start
    for answer in answers:
        check_same(tool, outcome(json.loads(answer)["result"]), expected)
    return BURST / taken


def throughput(command, call):
    """Returns the calls per second of one server with sixteen at once, as a multiple of those of
    two servers with eight each."""
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
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", nargs="?", default=str(here / "target/release/skillhost"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="skillhost-languages-") as folder:
        command = build(str(pathlib.Path(options.program).resolve()), pathlib.Path(folder))
        tool_calls = [("%s_tool" % language, *TERM) for language in LANGUAGES]
        with contextlib.closing(Bare(command)) as server:
            for tool, arguments, expected in tool_calls:
                check_same(tool, server.call(tool, arguments), expected)
            sides = [calls(server, *call[:2]) for call in tool_calls] + [calls(server, *RUST)]
            taken = [side_figures("", rounds)["median_ns"] / 1e3 for rounds in
                     all_in_turns(sides, ROUNDS, TIMES, lambda text: None)]
        print("%-12s%12s%14s%18s%18s%24s" % (
            "", "a call, µs", "times Rust's", "first call, ms", "100 calls, MiB",
            "1 server / 2 servers"))
        print("%-12s%12.0f%14s" % ("rust", taken[-1], ""))
        for language, call, micros in zip(LANGUAGES, tool_calls, taken):
            first, added = first_call(command, call), growth(command, call)
            of_two = throughput(command, call)
            print("%-12s%12.0f%14.1f%18.1f%18.1f%24.2f" % (
                language, micros, micros / taken[-1], first, added, of_two))
            for what, is_met in (("the first call", first <= 150), ("the memory", added <= 32),
                                 ("the throughput", of_two >= 0.9)):
                wrong += [] if is_met else ["%s: %s misses its bound" % (language, what)]
    print("\n".join(wrong), file=sys.stderr, end="\n" * bool(wrong))
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
