#!/usr/bin/env python3
"""Measures how a client at full load affects the answers to another one, over HTTP.

One client asks every millisecond. In alternating windows, it is alone, or another client loads the
server in one of these ways:

    calls      asks without a pause on 32 connections
    listeners  subscribes to 19,900 resources on 2 connections, again and again
    readers    reads 13.5 MB on 12 connections, again and again
    streams    opens 60 streams with filters of 1.9 MB, or of 60 kB if these are refused

Prints the medians of the windows, the slowest answer of all, and the memory that the server still
has when the connections have closed.

    cargo build --release; bench/compare/shares.py [--check] [--calls N] [--program FILE] [LOAD …]

Needs only Python 3, and a machine without other work. `--check` fails if the 99th percentile
beside `calls` grows by more than 10 % and 1 ms, if the median beside another load more than
doubles or the slowest answer takes 100 ms more, or if the server keeps more than 64 MiB. `--calls`
sets the limit `calls` of the server.

Real clients have their own processors. Here, the measuring client gets a processor at once if this
runs as root, and the loading client gets only idle time.
"""
import argparse
import functools
import json
import os
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve()
WINDOWS, WINDOW = 15, 0.4
CONNECTIONS = 32
PAUSE = 0.001
# The maximum 99th percentile beside `calls`: this multiple of the one without a load, and these
# seconds more.
MAX_P99_RATIO, MAX_P99_EXTRA = 1.1, 0.001
# The maximum beside other loads: the median as a multiple, and the seconds that the slowest answer
# takes longer.
MAX_MEDIAN_RATIO, MAX_SLOWEST_EXTRA = 2, 0.1
# The maximum memory that the server may keep, in bytes.
MAX_LEFT = 64 << 20
# The maximum seconds to wait until the server has returned the memory of closed connections.
MAX_SETTLE_TIME = 10
LARGE = 13_500_000


def call(tool, **arguments):
    params = {"name": tool, "arguments": dict(arguments, skill_name="report")}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


@functools.cache
def subscription(count, length):
    """Returns a subscription to `count` resources with addresses of this length."""
    uris = ["skill://report/%d" % number for number in range(count)]
    params = {
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                  "io.modelcontextprotocol/clientCapabilities": {}},
        "notifications": {"toolsListChanged": True,
                          "resourceSubscriptions": [uri.ljust(length, "x") for uri in uris]}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
                       "params": params}, separators=(",", ":"))


CALL = call("read_skill")
READ = call("read_file_in_skill", file_path="large.txt")


def token(client):
    return "the-token-of-the-client-" + client


def request(client, body=CALL):
    version = "2025-11-25"
    if "subscriptions/listen" in body:
        version = "2026-07-28\r\nmcp-method: subscriptions/listen"
    return ("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: %s\r\n"
            "authorization: Bearer %s\r\ncontent-length: %d\r\n\r\n%s"
            % (version, token(client), len(body), body)).encode()


class Connection:
    def __init__(self, address, client):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = request(client)
        self.unread = b""

    def ask(self):
        self.socket.sendall(self.request)

    def receive_once(self):
        """Reads once. Returns `True` at the end of an answer."""
        read = self.socket.recv(1 << 16)
        self.unread += read
        head, ends, body = self.unread.partition(b"\r\n\r\n")
        if not read or ends and not head.startswith(b"HTTP/1.1 200 "):
            sys.exit("error: the server answers %r" % self.unread)
        if not ends:
            return False
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return False
        self.unread = b""
        return True


def load(name, port):
    """Loads the server while the last byte from stdin is `1`. Answers each byte with a byte once
    the load has started or stopped, and prints the number of the server's answers at the end."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    address = ("127.0.0.1", port)
    if name == "calls":
        return call_without_a_pause(address)
    threads, turn = LOADS[name]
    is_busy, answers = threading.Event(), []

    def work():
        while is_busy.is_set():
            answers.append(turn(address, is_busy))

    workers = []
    while order := os.read(0, 1):
        if order == b"1":
            is_busy.set()
            workers = [threading.Thread(target=work) for _ in range(threads)]
            for worker in workers:
                worker.start()
        else:
            is_busy.clear()
            for worker in workers:
                worker.join()
        os.write(1, b".")
    is_busy.clear()
    print(len(answers))


def call_without_a_pause(address):
    ready = selectors.DefaultSelector()
    for _ in range(CONNECTIONS):
        connection = Connection(address, "greedy")
        ready.register(connection.socket, selectors.EVENT_READ, connection)
    ready.register(sys.stdin, selectors.EVENT_READ)
    is_busy, resting, answers = False, [], 0
    connections = [key.data for key in ready.get_map().values() if key.data]
    resting.extend(connections)
    while True:
        for key, _ in ready.select():
            if key.data is None:
                order = os.read(0, 1)
                if not order:
                    print(answers)
                    return
                is_busy = order == b"1"
                os.write(1, b".")
            elif key.data.receive_once():
                answers += 1
                resting.append(key.data)
        if is_busy:
            for connection in resting:
                connection.ask()
            resting.clear()


def ask_once(address, body):
    """Sends a request on a new connection. Returns the connection, and the status of the answer."""
    connection = socket.create_connection(address)
    connection.sendall(request("greedy", body))
    head = b""
    while b"\r\n\r\n" not in head:
        read = connection.recv(1 << 16)
        if not read:
            break
        head += read
    return connection, head[9:12].decode()


def subscribe(address, _):
    ask_once(address, subscription(19_900, 0))[0].close()


def read_large(address, _):
    connection, _ = ask_once(address, READ)
    with connection:
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 20):
            pass


def stay_open(address, is_busy):
    for body in [subscription(19_000, 100), subscription(200, 300)]:
        connection, status = ask_once(address, body)
        with connection:
            while status == "200" and is_busy.is_set():
                time.sleep(WINDOW / 10)


# The number of connections of each load, and the function for one turn of a connection.
LOADS = {"listeners": (2, subscribe), "readers": (12, read_large), "streams": (60, stay_open)}


def measure_window(connection):
    """Returns the median, the 99th percentile and the maximum of the seconds to an answer."""
    times = []
    end = time.perf_counter() + WINDOW
    while time.perf_counter() < end:
        start = time.perf_counter()
        connection.ask()
        while not connection.receive_once():
            pass
        times.append(time.perf_counter() - start)
        time.sleep(PAUSE)
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100], times[-1]


def prepare(folder, calls):
    (folder / "skills/report").mkdir(parents=True)
    (folder / "skills/report/SKILL.md").write_text(
        "---\nname: report\ndescription: Writes reports.\n---\n" + "Read, then write.\n" * 200)
    (folder / "skills/report/large.txt").write_text(("x" * 99 + "\n") * (LARGE // 100))
    text = 'skills = ["skills"]\n'
    for client in ["calm", "greedy"]:
        (folder / client).touch(0o600)
        (folder / client).write_text(token(client))
        text += '[clients.%s]\ntoken_file = "%s"\n' % (client, client)
    if calls:
        text += "calls = %d\n" % calls
    (folder / "c.toml").write_text(text)


def measure(program, calls, name):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prepare(folder, calls)
        serve = [program, "serve", "--http", "127.0.0.1:0", "--config", folder / "c.toml"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              encoding="utf-8") as server:
            try:
                port = int(server.stdout.readline().rpartition(":")[2].partition("/")[0])
                return beside_a_load(name, port, server.pid)
            finally:
                server.kill()


def memory(process):
    for line in pathlib.Path("/proc/%d/status" % process).read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10


def memory_left(process, before):
    """Returns the additional memory once most of it is returned, or after a while."""
    end = time.monotonic() + MAX_SETTLE_TIME
    while (left := memory(process) - before) > MAX_LEFT and time.monotonic() < end:
        time.sleep(WINDOW)
    return max(left, 0)


def take_precedence():
    """Gives this process a processor whenever it wants one, if it runs as root."""
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(1))
    except PermissionError:
        print("not as root: the slowest calls include waits for a processor", file=sys.stderr)


def beside_a_load(name, port, server):
    calm = Connection(("127.0.0.1", port), "calm")
    greedy = subprocess.Popen([sys.executable, HERE, "--load", name, str(port)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    windows = {b"0": [], b"1": []}
    measure_window(calm)
    before = memory(server)
    for _ in range(WINDOWS):
        for order, found in windows.items():
            greedy.stdin.write(order)
            greedy.stdin.flush()
            greedy.stdout.read(1)
            time.sleep(WINDOW / 4)
            found.append(measure_window(calm))
    answers = int(greedy.communicate()[0])
    alone, beside = (summary(found) for found in windows.values())
    return alone, beside, answers / (WINDOWS * WINDOW * 1.25), memory_left(server, before)


def summary(windows):
    """Returns the median of the medians, that of the 99th percentiles, and the slowest answer."""
    medians, slow, slowest = zip(*windows)
    return statistics.median(medians), statistics.median(slow), max(slowest)


def faults(name, alone, beside, left):
    """Yields a message for each figure that exceeds its bound."""
    if name == "calls":
        bounds = [(1, alone[1] * MAX_P99_RATIO + MAX_P99_EXTRA)]
    else:
        bounds = [(0, alone[0] * MAX_MEDIAN_RATIO), (2, alone[2] + MAX_SLOWEST_EXTRA)]
    for which, most in bounds:
        if beside[which] > most:
            yield "%s: %.2f ms is more than %.2f ms" % (name, beside[which] * 1000, most * 1000)
    if left > MAX_LEFT:
        yield "%s: the server keeps %d MiB" % (name, left >> 20)


def main():
    if sys.argv[1:2] == ["--load"]:
        return load(sys.argv[2], int(sys.argv[3]))
    names = ["calls", *LOADS]
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--check", action="store_true")
    options.add_argument("--calls", type=int)
    options.add_argument("--program", default=HERE.parents[2] / "target/release/skillhost")
    options.add_argument("loads", nargs="*", metavar="LOAD", help=", ".join(names))
    options = options.parse_args()
    if unknown := set(options.loads) - set(names):
        sys.exit("error: unknown load `%s`: choose from %s" % (unknown.pop(), ", ".join(names)))
    take_precedence()
    print("| a call of one client | median | 99th percentile | slowest | left | answers/s |")
    print("|---|---|---|---|---|---|")
    found = []
    for name in options.loads or names:
        alone, beside, rate, left = measure(options.program, options.calls, name)
        for label, times, more in [("alone", alone, ("", "")),
                                   ("beside `%s`" % name, beside, ("%d MiB" % (left >> 20), "%.0f" % rate))]:
            figures = ["%.2f ms" % (time * 1000) for time in times]
            print("| %s |" % " | ".join([label, *figures, *more]), flush=True)
        found.extend(faults(name, alone, beside, left))
    if options.check and found:
        sys.exit("\n".join("error: " + fault for fault in found))


if __name__ == "__main__":
    main()
