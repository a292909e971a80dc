#!/usr/bin/env python3
"""Measures a server with 10, 1,000 and 10,000 skills of four folders each: its start, calls,
lists, searches, changes and memory. Prints a table.

    cargo build --release; bench/compare/catalog.py [--check] [--skills 10 1000 10000] [PROGRAM]

Needs only Python 3. `--check` fails if a list takes more than ten times as long with ten times
as many skills, if a call takes more than a tenth longer, or if a figure exceeds its bound.
"""
import argparse
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time

INNER = ("references", "scripts", "assets")
CALLS = 300
STARTS = 5
PATIENCE = 120
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "catalog", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# Name, unit, the maximum growth from 1,000 to 10,000 skills, and the maximum with 10,000. A
# figure has no bound if nobody waits for it.
FIGURES = [
    ("start to first tools/list", "ms", None, 50),
    ("first call", "ms", None, 50),
    ("read_skill", "ms", 1.1, None),
    ("tools/list", "ms", 10, None),
    ("list_skills, a page", "ms", 10, None),
    ("list_skills, all pages", "ms", 10, 1000),
    ("find_skills", "ms", 10, 5),
    ("skills/list, all pages", "ms", 10, None),
    ("resources/list, all pages", "ms", 10, None),
    ("change of a SKILL.md to notification", "ms", None, 1000),
    ("change in its deepest folder", "ms", None, 1000),
    ("memory", "MiB", None, 96),
]


def write_skills(root, count):
    for number in range(count):
        name = "skill-%05d" % number
        for inner in INNER:
            (root / name / inner).mkdir(parents=True)
            (root / name / inner / "notes.md").write_text("# Notes %d\n" % number)
        (root / name / "SKILL.md").write_text(
            "---\nname: %s\ndescription: Writes report %d from tables. Use for monthly figures.\n"
            "---\n# Report %d\n\nRead the table, then write.\n" % (name, number, number))
    # Otherwise a file could have the same time as the start of the server.
    time.sleep(0.1)
    return root


class Server:
    def __init__(self, program, root, log):
        self.start = time.perf_counter()
        self.process = subprocess.Popen([program, "serve", "--skills", root],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.number = 0
        self.answers, self.notifications = queue.Queue(), queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            (self.answers if "id" in message else self.notifications).put(
                (time.perf_counter(), message))

    def send(self, method, params):
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method,
                   "params": dict(params, _meta=META)}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.send(method, params)
        _, message = self.answers.get(timeout=PATIENCE)
        assert message["id"] == self.number and "result" in message, message
        return message["result"]

    def call(self, tool, **arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def pages(self, method, key):
        entries, params = 0, {}
        while True:
            page = self.ask(method, params)
            entries += len(page[key])
            if not page.get("nextCursor"):
                return entries
            params = {"cursor": page["nextCursor"]}

    def list_skills(self):
        entries, arguments = 0, {}
        while True:
            page = json.loads(self.call("list_skills", **arguments))
            entries += len(page["skills"])
            cursor = page.get("next_cursor") or page.get("nextCursor")
            if not cursor:
                return entries
            arguments = {"cursor": cursor}

    def change(self, path):
        """Changes a file. Returns the milliseconds until a notification."""
        while not self.notifications.empty():
            self.notifications.get()
        start = time.perf_counter()
        with path.open("a") as file:
            file.write("\n")
        end, _ = self.notifications.get(timeout=PATIENCE)
        time.sleep(1)
        return (end - start) * 1000

    def memory(self):
        """Returns the peak of the resident memory in MiB."""
        status = pathlib.Path("/proc/%d/status" % self.process.pid).read_text()
        [kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        return int(kib) / 1024

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE)


def timed(work, times=1):
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def measure(program, root, count, log):
    name = "skill-%05d" % (count // 2)
    first_list, first_call = [], []
    for _ in range(STARTS):
        server = Server(program, root, log)
        server.ask("tools/list", {})
        first_list.append((time.perf_counter() - server.start) * 1000)
        server.end()
        server = Server(program, root, log)
        server.call("read_skill", skill_name=name)
        first_call.append((time.perf_counter() - server.start) * 1000)
        server.end()
    server = Server(program, root, log)
    found = {
        "start to first tools/list": statistics.median(first_list),
        "first call": statistics.median(first_call),
    }
    # Wait for the first scan and the index.
    time.sleep(5 if count > 1000 else 1)
    found["memory"] = server.memory()
    found["read_skill"] = timed(lambda: server.call("read_skill", skill_name=name), CALLS)
    found["tools/list"] = timed(lambda: server.ask("tools/list", {}), 5)
    listed = server.list_skills()
    assert listed == count, listed
    found["list_skills, all pages"] = timed(server.list_skills, 3)
    found["list_skills, a page"] = timed(lambda: server.call("list_skills"), 20)
    # Models can call `find_skills` even if it is not listed because the skills fit a prompt.
    found["find_skills"] = timed(
        lambda: server.call("find_skills", query="monthly report from a table"), 20)
    for method, key, entries in (("skills/list", "skills", count),
                                 ("resources/list", "resources", count * 4)):
        listed = server.pages(method, key)
        assert listed == entries, (method, listed)
        found[method + ", all pages"] = timed(lambda: server.pages(method, key), 3)
    server.send("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
    time.sleep(0.5)
    last = root / ("skill-%05d" % (count - 1))
    found["change of a SKILL.md to notification"] = server.change(last / "SKILL.md")
    found["change in its deepest folder"] = server.change(last / "scripts/new.md")
    server.end()
    return found


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", nargs="?", default=str(here / "target/release/skillhost"))
    parser.add_argument("--skills", nargs="+", type=int, default=[10, 1_000, 10_000])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="skillhost-catalog-") as folder:
        log = open(os.path.join(folder, "log"), "w", encoding="utf-8")
        for count in options.skills:
            print("%d skills …" % count, file=sys.stderr)
            root = write_skills(pathlib.Path(folder) / str(count), count)
            found.append(measure(options.program, root, count, log))
    print("%-40s" % "" + "".join("%12s" % format(count, ",") for count in options.skills)
          + "%10s" % "growth")
    tenfold = len(options.skills) > 1 and options.skills[-1] == 10 * options.skills[-2]
    wrong = []
    for name, unit, most_growth, most in FIGURES:
        values = [figures.get(name) for figures in found]
        if None in values:
            continue
        growth = values[-1] / values[-2] if len(values) > 1 else 1
        print("%-40s" % ("%s (%s)" % (name, unit))
              + "".join("%12.2f" % value for value in values) + "%10.2f" % growth)
        if most_growth and tenfold and growth > most_growth:
            wrong.append("%s grows %.2f times: at most %s" % (name, growth, most_growth))
        if most and values[-1] > most:
            wrong.append("%s takes %.1f %s: at most %s" % (name, values[-1], unit, most))
    print("\n".join(wrong), file=sys.stderr, end="\n" * bool(wrong))
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
