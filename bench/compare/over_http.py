#!/usr/bin/env python3
"""Compares reads of 4 KB over HTTP at 1, 50 and 200 connections, in turns: `skillhost serve`, a server
on the Python SDK, and a bare axum handler that reads the file. Also measures `skillhost serve` over
stdio, and the processor time of each step of a request to skillhost.

    cargo build --release; bench/compare/over_http.py [--check] [--rounds N] [--seconds N] [--programs DIR]

Needs the virtual environment of tests/clients/python, wrk (`apt-get install wrk`, or WRK names it),
and a machine without other work: wrk takes a part of the same processors. `--check` fails if an
answer is refused or a target is not met.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import subject
from clients import Bare

HERE = pathlib.Path(__file__).resolve()
REPOSITORY = HERE.parents[2]
CONNECTIONS = (1, 50, 200)
# The throughput at every number of connections, as a multiple of the other side's.
TARGETS = {"Python SDK": 20, "axum": 0.5}


def message(method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def read(path):
    arguments = {"skill_name": "subject", "file_path": path}
    return message("tools/call", name="read_file_in_skill", arguments=arguments)


CALL = read(subject.arguments_for("4 KB")["file_path"])
TOKEN = "Bearer a-token-of-the-measurement"
# Requests that each go one step further: the step, method, path, body, token, and the status.
STEPS = [
    ("accept HTTP, route and refuse", "GET", "/none", "", TOKEN, 404),
    ("check host, origin and token", "POST", "/mcp", CALL, "Bearer another-token-than-that", 401),
    ("lease, read and check the body, parse MCP, answer", "POST", "/mcp", message("ping"), TOKEN, 200),
    ("queue, make a sandbox, read a file of 8 bytes", "POST", "/mcp", read("tiny.md"), TOKEN, 200),
    ("read 4 KB more, answer with them", "POST", "/mcp", CALL, TOKEN, 200),
]
# The script for wrk. It prints the numbers of answers and of wrong ones, errors, and latencies.
SCRIPT = """
wrk.method = "%s"
wrk.path = "%s"
wrk.body = [==[%s]==]
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "application/json, text/event-stream"
wrk.headers["MCP-Protocol-Version"] = "2025-11-25"
wrk.headers["Authorization"] = "%s"
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init() refused = 0 end
function response(status, headers, body)
    if status ~= %d or #body < %d then refused = refused + 1 end
end
function done(summary, latency)
    local refused = 0
    for _, thread in ipairs(threads) do refused = refused + thread:get("refused") end
    local errors = summary.errors
    errors = errors.connect + errors.read + errors.write + errors.timeout
    print(string.format("RESULT %%d %%d %%d %%d %%d %%d", summary.requests, summary.duration,
        refused, errors, latency:percentile(50), latency:percentile(99)))
end
"""


def load(wrk, script, url, connections, seconds):
    """Returns the requests per second, the number of refusals and errors, and latencies in µs."""
    out = subprocess.run([wrk, "-t1", "-c%d" % connections, "-d%ds" % seconds, "-s", script, url],
                         check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)", out)
    requests, microseconds, refused, errors, median, p99 = map(int, found.groups())
    return requests / microseconds * 1e6, refused + errors, median, p99


@contextlib.contextmanager
def server(command, env):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", env=env)
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


def processor_time(pid):
    """Returns the processor time of a process in seconds."""
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    """Returns the resident bytes of a process."""
    status = pathlib.Path("/proc/%d/status" % pid).read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) << 10


def print_steps(wrk, script, one, options):
    """Prints the processor time of a request to skillhost up to each step, and the time that the
    step adds."""
    url, pid = one
    taken = [[] for _ in STEPS]
    for _ in range(options.rounds):
        for step, (_, *request, status) in enumerate(STEPS):
            script.write_text(SCRIPT % (*request, status, 0))
            before = processor_time(pid)
            rate, refused, _, _ = load(wrk, script, url, CONNECTIONS[1], options.seconds)
            if refused:
                sys.exit("error: step %d: %d answers have another status" % (step, refused))
            taken[step].append((processor_time(pid) - before) / (rate * options.seconds) * 1e6)
    print("\n| up to this step | µs of processor | more than before |\n|---|--:|--:|")
    before = 0
    for (name, *_), values in zip(STEPS, taken):
        spent = statistics.median(values)
        print("| %s | %.1f | %.1f |" % (name, spent, spent - before))
        before = spent


def over_stdio(command, env, rounds):
    with contextlib.closing(Bare(command, env)) as bare:
        side = bare.calls(subject.arguments_for("4 KB"))
        side(200)
        return [len(taken) / sum(taken) * 1e9 for taken in (side(500) for _ in range(rounds))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--programs", type=pathlib.Path, default=REPOSITORY / "target/release")
    parser.add_argument("--axum", type=pathlib.Path,
                        help="folder of skillhost-compare (default: as --programs)")
    options = parser.parse_args()
    wrk = os.environ.get("WRK") or shutil.which("wrk")
    if not wrk:
        sys.exit("error: `wrk` is not installed: apt-get install wrk")
    failed = []
    with tempfile.TemporaryDirectory(prefix="skillhost-http-") as folder:
        skills = subject.write_skills(pathlib.Path(folder) / "skills", 10)
        script = pathlib.Path(folder, "call.lua")
        script.write_text(SCRIPT % ("POST", "/mcp", CALL, TOKEN, 200, 4096))
        (skills / "subject/tiny.md").write_text("A line.\n")
        token = pathlib.Path(folder, "token")
        token.touch(mode=0o600)
        token.write_text(TOKEN.split()[1])
        env = dict(os.environ, SKILLHOST_CACHE=str(pathlib.Path(folder, "cache")))
        ours = [options.programs / "skillhost", "serve", "--skills", skills]
        compare = (options.axum or options.programs) / "skillhost-compare"
        with server([*ours, "--http", "127.0.0.1:0", "--token-file", token], env) as one, \
                server([sys.executable, HERE.with_name("server.py"), skills, "http"], env) as two, \
                server([compare, "plain", skills], env) as three:
            sides = {"skillhost": one, "Python SDK": two, "axum": three}
            idle = memory(one[1])
            print("| connections | side | calls/s | µs of processor per call | median | 99th | "
                  "refused | skillhost, as a multiple |\n|--:|---|--:|--:|--:|--:|--:|--:|")
            for connections in CONNECTIONS:
                taken = {name: [] for name in sides}
                for number in range(-1, options.rounds):
                    order = list(sides) if number % 2 else list(sides)[::-1]
                    for name in order:
                        url, pid = sides[name]
                        before = processor_time(pid)
                        seconds = options.seconds if number >= 0 else 1
                        result = load(wrk, script, url, connections, seconds)
                        spent = (processor_time(pid) - before) / (result[0] * seconds) * 1e6
                        # The first round warms up.
                        if number >= 0:
                            taken[name].append((*result, spent))
                medians = {name: [statistics.median(values) for values in zip(*rounds)]
                           for name, rounds in taken.items()}
                for name, rounds in taken.items():
                    rate, _, median, p99, spent = medians[name]
                    refused = sum(one[1] for one in rounds)
                    multiple = medians["skillhost"][0] / rate
                    print("| %d | %s | %.0f | %.1f | %.2f ms | %.2f ms | %d | %.2f |" % (
                        connections, name, rate, spent, median / 1e3, p99 / 1e3, refused, multiple))
                    if name in TARGETS and multiple < TARGETS[name]:
                        failed.append("%d connections: %.2f times %s, not %.1f"
                                      % (connections, multiple, name, TARGETS[name]))
                    if name == "skillhost" and refused:
                        failed.append("%d connections: %d refused" % (connections, refused))
            print_steps(wrk, script, one, options)
            print("\nResident memory: %.1f MiB idle, %.1f MiB after this load" % (
                idle / 2**20, memory(one[1]) / 2**20))
        rate = statistics.median(over_stdio(list(map(str, ours)), env, options.rounds * 3))
        print("skillhost over stdio, bare pipes, one call at a time: %.0f calls/s" % rate)
    for problem in failed:
        print("WRONG: %s" % problem)
    sys.exit(1 if failed and options.check else 0)


if __name__ == "__main__":
    main()
