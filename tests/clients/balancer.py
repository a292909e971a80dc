"""The program behind haproxy, which forwards connections (TCP mode) or requests (HTTP mode). Silent
clients and clients without the token shut out neither calls nor probes, and clients behind one
balancer do not count as one peer. Silent clients reach the program only in TCP mode. In HTTP mode
their connections end at the balancer."""
import contextlib
import json
import shutil
import socket
import subprocess
import time

import serving

CLIENTS = 600
CONNECTIONS = 64
CALL = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "read_skill", "arguments": {"skill_name": "calculator"}},
}
# haproxy has one thread. Several threads would forward connections in another order, and a thread
# that lags behind forwards many at once, which can evict a client that connected later.
CONFIGURATION = """
global
    maxconn 8000
    nbthread 1
defaults
    mode %(mode)s
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend clients
    bind 127.0.0.1:%(port)d
    default_backend servers
backend servers
    %(check)s
    server one 127.0.0.1:%(server)d check inter 200ms %(how)s
"""
CHECK = """option httpchk GET /healthz
    http-check expect status 200"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ask(port, token=None, path=None):
    """Returns the status of a call or a probe."""
    body = b"" if path else json.dumps(CALL).encode()
    lines = ["GET %s HTTP/1.1" % path if path else "POST /mcp HTTP/1.1", "Host: localhost",
             "Accept: application/json, text/event-stream", "Content-Type: application/json",
             "Content-Length: %d" % len(body), "Connection: close"]
    if token:
        lines.append("Authorization: Bearer " + token)
    with socket.create_connection(("127.0.0.1", port), serving.PATIENCE) as client:
        client.sendall("\r\n".join(lines + ["", ""]).encode() + body)
        answer = b""
        while part := client.recv(65536):
            answer += part
    return answer.split(b" ")[1].decode() if answer else "nothing"


def until(what, holds):
    end = time.monotonic() + serving.PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(what)
        time.sleep(0.05)


@contextlib.contextmanager
def balanced(where, mode, server):
    """haproxy in front of the program."""
    port = free_port()
    file = where.folder / ("haproxy-%s.cfg" % mode)
    how = "pool-max-conn 0" if mode == "http" else ""
    file.write_text(CONFIGURATION % {
        "mode": mode, "port": port, "server": server, "check": CHECK, "how": how})
    process = subprocess.Popen([shutil.which("haproxy") or "/usr/sbin/haproxy", "-q", "-db", "-f", str(file)])
    try:
        def answers():
            with contextlib.suppress(OSError):
                return ask(port, path="/readyz") == "200"
        until("haproxy does not answer", answers)
        yield port
    finally:
        process.terminate()
        process.wait()


def tried(where, mode, trusted, server):
    """Returns the errors in one mode."""
    wrong = []
    with balanced(where, mode, server) as port:
        silent = []
        try:
            for number in range(CLIENTS):
                client = socket.create_connection(("127.0.0.1", port), serving.PATIENCE)
                # Every third sends a request without the token, and stays.
                if number % 3 == 0:
                    client.sendall(b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n")
                silent.append(client)
                if number % 50 == 0:
                    for what in ({"token": serving.TOKEN}, {"path": "/healthz"}):
                        status = ask(port, **what)
                        if status != "200":
                            wrong.append("%s, %s: %s among %d idle clients"
                                         % (mode, what, status, number))
            refused = ask(port)
            if refused != "401":
                wrong.append("%s: a call without the token: %s" % (mode, refused))
        finally:
            for client in silent:
                client.close()
    if not wrong:
        print("haproxy in mode %s%s: %d idle clients, no call and no probe refused"
              % (mode, ", trusted" if trusted else "", CLIENTS))
    return wrong


def run():
    if not (shutil.which("haproxy") or shutil.which("/usr/sbin/haproxy")):
        return ["there is no haproxy: apt-get install haproxy"]
    wrong = []
    for trusted in (False, True):
        with serving.place() as where:
            settings = "[http]\nconnections = %d\n" % CONNECTIONS
            if trusted:
                settings += 'trusted_proxies = ["127.0.0.1"]\n'
            file = where.folder / "skillhost.toml"
            file.write_text(file.read_text() + settings)
            with serving.served(where) as url:
                server = int(url.rsplit(":", 1)[1].split("/")[0])
                until("not ready", lambda: ask(server, path="/readyz") == "200")
                for mode in ("tcp", "http"):
                    wrong += tried(where, mode, trusted, server)
    return wrong
