#!/usr/bin/env python3
"""Compares HTTP requests of a guest with the same requests by `ureq` without a sandbox, to one
server on loopback: small answers, large bodies, and the start of a server with and without a
grant of requests. Prints a table.

    cargo build --release; bench/compare/network.py [--check] [PROGRAM]

Needs only Python 3, and `skillhost-compare` beside the program. `--check` fails if a figure
misses its bound.
"""
import argparse
import contextlib
import http.server
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

from clients import Bare, TimedProcess
from figures import all_in_turns, in_turns

SMALL = b'{"temperature": 21.5}\n'
LARGE = 100 << 20
PIECE = b"x" * (1 << 20)
# The number of requests in a call. With many, the time of the call itself makes no difference.
REQUESTS = 100
ROUNDS = 10
TOML = """skills = ["skills"]
tools = ["tools"]
%s
"""
GRANT = """[grants."requests.wasm"]
network = ["http://localhost:%d/*"]
limits.requests = 1000
limits.response_bytes = "1 GiB"
limits.time = "60 s"
"""


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        large = self.path == "/large"
        self.send_response(200)
        self.send_header("content-length", str(LARGE if large else len(SMALL)))
        self.end_headers()
        if large:
            for _ in range(LARGE // len(PIECE)):
                self.wfile.write(PIECE)
        else:
            self.wfile.write(SMALL)

    def log_message(self, *_):
        pass


def repeated(server, port, path):
    """Returns two sides: the mean time of many requests in a call, and the time of the first."""
    def run(times, requests=REQUESTS):
        request = {"host": "localhost:%d" % port, "path": path, "repeat": requests}
        arguments = {"requests": json.dumps([request] if requests else [])}
        start = time.perf_counter_ns()
        failed, text = server.call("send_requests", arguments)
        taken = time.perf_counter_ns() - start
        size = LARGE if path == "/large" else len(SMALL)
        if failed or any(one.get("bytes") != size for one in json.loads(text)["results"]):
            raise SystemExit("the guest answered %.500s" % text)
        return taken

    def small(times):
        return [(run(1, REQUESTS) - run(1, 0)) / REQUESTS for _ in range(times)]

    def first(times):
        return [run(1, 1) - run(1, 0) for _ in range(times)]

    return small, first


def fetched(driver, port, path):
    """Returns a side that sends the same requests by ureq."""
    url = "http://localhost:%d%s" % (port, path)
    return lambda times: driver.execute(order="fetch", url=url, times=times)["nanoseconds"]


def started(command):
    """Returns a side that measures from the start of a server to its list of tools."""
    def run(times):
        taken = []
        for _ in range(times):
            start = time.perf_counter_ns()
            with contextlib.closing(Bare(command)) as server:
                server.ask("tools/list", {})
                taken.append(time.perf_counter_ns() - start)
        return taken
    return run


def median(rounds):
    return statistics.median(value for one in rounds for value in one) / 1e6


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", nargs="?", default=str(here / "target/release/skillhost"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    port = http_server.server_port
    with tempfile.TemporaryDirectory(prefix="skillhost-requests-") as folder:
        folder = pathlib.Path(folder)
        (folder / "skills/a").mkdir(parents=True)
        (folder / "skills/a/SKILL.md").write_text("---\nname: a\ndescription: Adds.\n---\n")
        (folder / "tools").mkdir()
        component = here / "tests/guests/dist/requests.wasm"
        (folder / "tools/requests.wasm").write_bytes(component.read_bytes())
        (folder / "with.toml").write_text(TOML % (GRANT % port))
        (folder / "without.toml").write_text(TOML % '[grants."requests.wasm"]')
        serve = [options.program, "serve", "--config"]
        folders = {"skills": str(folder / "skills"), "cache": str(folder / "cache"), "tools": None}
        driver = [str(pathlib.Path(options.program).with_name("skillhost-compare")),
                  json.dumps(folders)]
        say = lambda text: print(text, file=sys.stderr)
        with contextlib.closing(Bare([*serve, str(folder / "with.toml")])) as server, \
                contextlib.closing(TimedProcess(driver)) as driver:
            small, first = repeated(server, port, "/small")
            one, alone, plain = all_in_turns([small, first, fetched(driver, port, "/small")],
                                             ROUNDS, 4, lambda text: say("small: " + text))
            _, large = repeated(server, port, "/large")
            body, body_plain = in_turns(large, fetched(driver, port, "/large"), ROUNDS // 2, 1,
                                        lambda text: say("large: " + text))
        starts = [started([*serve, str(folder / name)]) for name in ("with.toml", "without.toml")]
        start, start_plain = in_turns(*starts, ROUNDS, 4, lambda text: say("start: " + text))
    rows = [
        ("one of many requests of a call, more than ureq (ms)", median(one) - median(plain), 1.0),
        ("the first request of a call, more than ureq (ms)", median(alone) - median(plain), 1.0),
        ("100 MiB of body, as a multiple of ureq's time", median(body) / median(body_plain), 2.0),
        ("start with a grant, more than without (ms)", median(start) - median(start_plain), 3.0),
    ]
    wrong = False
    for what, value, most in rows:
        wrong |= value > most
        print("%-56s%10.2f   at most %.1f" % (what, value, most))
    print("ureq: %.3f ms, 100 MiB %.1f ms; start without a grant %.1f ms" % (
        median(plain), median(body_plain), median(start_plain)))
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
