#!/usr/bin/env python3
"""What a client at full load does to the slowest answers of another, over HTTP. In alternating
windows, one client asks every millisecond, alone and beside the other, which asks without a
pause on 32 connections. Prints the medians over the windows.

    cargo build --release; bench/compare/shares.py [--check] [--calls N] [PROGRAM]

Needs Python 3 alone, and a machine without other work. `--check` fails if the 99th percentile
grows by more than 10 % and 1 ms. `--calls` is the loaded client's `calls`. Real clients have
processors of their own: here the one that measures gets a processor at once, if this is root,
and the loaded one gets only the time that nobody else wants.
"""
import argparse
import json
import os
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
WINDOWS, WINDOW = 15, 0.4
CONNECTIONS = 32
PAUSE = 0.001
MOST_GROWTH, MOST_MORE = 1.1, 0.001
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                   "params": {"name": "read_skill", "arguments": {"skill_name": "report"}}})


def token(client):
    return "the-token-of-the-client-" + client


def request(client):
    return ("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\n"
            "authorization: Bearer %s\r\ncontent-length: %d\r\n\r\n%s"
            % (token(client), len(CALL), CALL)).encode()


class Connection:
    def __init__(self, address, client):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = request(client)
        self.unread = b""

    def ask(self):
        self.socket.sendall(self.request)

    def is_answered(self):
        """Reads once. True if that was the end of an answer."""
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


def load(port):
    """Asks without a pause while the last byte of stdin is `1`. Prints the number of answers."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    ready = selectors.DefaultSelector()
    for _ in range(CONNECTIONS):
        connection = Connection(("127.0.0.1", port), "greedy")
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
            elif key.data.is_answered():
                answers += 1
                resting.append(key.data)
        if is_busy:
            for connection in resting:
                connection.ask()
            resting.clear()


def window(connection):
    times = []
    end = time.perf_counter() + WINDOW
    while time.perf_counter() < end:
        start = time.perf_counter()
        connection.ask()
        while not connection.is_answered():
            pass
        times.append(time.perf_counter() - start)
        time.sleep(PAUSE)
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100]


def prepare(folder, calls):
    (folder / "skills/report").mkdir(parents=True)
    (folder / "skills/report/SKILL.md").write_text(
        "---\nname: report\ndescription: Writes reports.\n---\n" + "Read, then write.\n" * 200)
    text = 'skills = ["skills"]\n'
    for client in ["calm", "greedy"]:
        (folder / client).touch(0o600)
        (folder / client).write_text(token(client))
        text += '[clients.%s]\ntoken_file = "%s"\n' % (client, client)
    if calls:
        text += "calls = %d\n" % calls
    (folder / "c.toml").write_text(text)


def measure(program, calls):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prepare(folder, calls)
        serve = [program, "serve", "--http", "127.0.0.1:0", "--config", folder / "c.toml"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              encoding="utf-8") as server:
            try:
                run_first()
                port = int(server.stdout.readline().rpartition(":")[2].partition("/")[0])
                return beside_a_load(port)
            finally:
                server.kill()


def run_first():
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(1))
    except PermissionError:
        print("not as root: the slowest calls include waits for a processor", file=sys.stderr)


def beside_a_load(port):
    calm = Connection(("127.0.0.1", port), "calm")
    greedy = subprocess.Popen([sys.executable, HERE, "--load", str(port)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    windows = {b"0": [], b"1": []}
    window(calm)
    for _ in range(WINDOWS):
        for order, found in windows.items():
            greedy.stdin.write(order)
            greedy.stdin.flush()
            time.sleep(WINDOW / 4)
            found.append(window(calm))
    answers = int(greedy.communicate()[0])
    alone, beside = ([statistics.median(times) for times in zip(*found)]
                     for found in windows.values())
    return alone, beside, answers / (WINDOWS * WINDOW * 1.25)


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--check", action="store_true")
    options.add_argument("--calls", type=int)
    options.add_argument("--load", type=int, help=argparse.SUPPRESS)
    options.add_argument("program", nargs="?", default=HERE.parents[2] / "target/release/skillhost")
    options = options.parse_args()
    if options.load:
        return load(options.load)
    alone, beside, rate = measure(options.program, options.calls)
    print("| a call of one client | median | 99th percentile |\n|---|---|---|")
    for name, (median, slow) in [("alone", alone), ("beside the other", beside)]:
        print("| %s | %.2f ms | %.2f ms |" % (name, median * 1000, slow * 1000))
    print("\nThe other got %.0f answers a second." % rate)
    most = alone[1] * MOST_GROWTH + MOST_MORE
    if options.check and beside[1] > most:
        sys.exit("error: %.2f ms is more than %.2f ms" % (beside[1] * 1000, most * 1000))


if __name__ == "__main__":
    main()
