#!/usr/bin/env python3
"""Compares the start of a server with 100 locked and signed packages with one with 100 plain
files of the same bytes, until it lists all tools. Prints a table.

    cargo build --release; bench/compare/packages.py [--check] [--packages 100] [PROGRAM]

Needs Python 3 and openssl. `--check` fails if packages take more than 1.2 times as long. Compiled
code is in the cache. The packages come from a registry in this process.
"""
import argparse
import hashlib
import http.server
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BOUND = 1.2
STARTS = 15
PATIENCE = 120
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "packages", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
# The tool of the component, which each copy renames.
TOOL = b"count_lines"


class Registry(http.server.BaseHTTPRequestHandler):
    """The parts of an OCI registry that `push` and `add` need."""
    protocol_version = "HTTP/1.1"
    stored = {}

    def log_message(self, *_):
        pass

    def respond(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def store(self, body, names):
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        kind = self.headers.get("Content-Type", "")
        repository = re.sub("/(blobs|manifests)/.*", "", self.path)
        for name in names + [digest]:
            self.stored[repository, name] = (kind, body)
        self.respond(201, Docker_Content_Digest=digest, Location=self.path)

    def do_GET(self):
        repository, name = re.sub("/(blobs|manifests)/.*", "", self.path), self.path.split("/")[-1]
        if self.path == "/v2/":
            return self.respond(200)
        if (repository, name) not in self.stored:
            return self.respond(404, b"{}")
        kind, body = self.stored[repository, name]
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        return self.respond(200, body, Content_Type=kind, Docker_Content_Digest=digest)

    do_HEAD = do_GET

    def do_POST(self):
        self.body()
        self.respond(202, Location=self.path.rstrip("/") + "/upload")

    def do_PUT(self):
        body = self.body()
        self.store(body, [] if "/blobs/" in self.path else [self.path.split("/")[-1]])


def component(count, number):
    """Returns a copy of the component with a unique tool name of the same length."""
    path = pathlib.Path(__file__).resolve().parents[2] / "tests/guests/dist/count_lines.wasm"
    bytes_ = path.read_bytes()
    assert TOOL in bytes_ and count < 10_000
    return bytes_.replace(TOOL, b"count_l%04d" % number)


class Setup:
    def __init__(self, program, folder, count):
        self.program, self.folder, self.count = program, folder, count
        self.environment = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "SKILLHOST_CACHE": str(folder / "cache"),
            "XDG_DATA_HOME": str(folder / "data"),
        }
        # As deep as in the store, because each folder above a component is checked.
        files = folder / "data/skillhost/files/plain"
        (folder / "skills/a").mkdir(parents=True)
        (folder / "skills/a/SKILL.md").write_text("---\nname: a\ndescription: A.\n---\n")
        files.mkdir(parents=True)
        (folder / "files.toml").write_text('skills = ["skills"]\ntools = ["%s"]\n' % files)
        key = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        subprocess.run(key + ["-out", folder / "acme.key"], check=True, capture_output=True)
        os.chmod(folder / "acme.key", 0o600)
        public = ["openssl", "pkey", "-in", folder / "acme.key", "-pubout"]
        subprocess.run(public + ["-out", folder / "acme.pub"], check=True, capture_output=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
        # Ignore clients that abort a connection.
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        namespace = "oci://localhost:%d/acme/" % server.server_port
        (folder / "packages.toml").write_text(
            'skills = ["skills"]\n[trust."%s*"]\nkeys = ["acme.pub"]\n' % namespace)
        for number in range(count):
            file = files / ("tool%04d.wasm" % number)
            file.write_bytes(component(count, number))
            reference = "%stool%04d:1" % (namespace, number)
            self.run("push", reference, file, "--key", "acme.key")
            self.run("add", reference, "--config", "packages.toml")
        server.shutdown()
        server.server_close()
        # No network is used from here on.
        for config in ("files.toml", "packages.toml"):
            self.run("warm", "--config", config)

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, (arguments, done.stderr.decode())

    def start(self, config):
        """Returns the milliseconds until a server has listed all tools."""
        start = time.perf_counter()
        server = subprocess.Popen([self.program, "serve", "--config", config], cwd=self.folder,
                                  env=self.environment, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

        def ask(number, method, params):
            message = {"jsonrpc": "2.0", "id": number, "method": method,
                       "params": dict(params, _meta=META)}
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()
            while True:
                answer = json.loads(server.stdout.readline())
                if answer.get("id") == number:
                    return answer

        # The server answers a call of an unknown tool once all components are loaded.
        ask(1, "tools/call", {"name": "none", "arguments": {}})
        taken = (time.perf_counter() - start) * 1000
        names, cursor, number = [], {}, 2
        while cursor is not None:
            page = ask(number, "tools/list", cursor)["result"]
            names += [tool["name"] for tool in page["tools"]]
            number += 1
            cursor = {"cursor": page["nextCursor"]} if page.get("nextCursor") else None
        listed = sum(name.startswith("count_l") for name in names)
        assert listed == self.count, listed
        server.stdin.close()
        server.wait(timeout=PATIENCE)
        return taken


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", nargs="?", default=str(here / "target/release/skillhost"))
    parser.add_argument("--packages", type=int, default=100)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory(prefix="skillhost-packages-") as folder:
        print("pushing and adding %d packages …" % options.packages, file=sys.stderr)
        setup = Setup(program, pathlib.Path(folder), options.packages)
        files, packages = [], []
        # Measure in turns, so that a busy moment affects both.
        for _ in range(STARTS):
            files.append(setup.start("files.toml"))
            packages.append(setup.start("packages.toml"))
    files, packages = statistics.median(files), statistics.median(packages)
    print("| server with | ready after |\n|---|---|")
    print("| %d files | %.1f ms |" % (options.packages, files))
    print("| %d signed packages | %.1f ms |" % (options.packages, packages))
    print("%.2f times as long" % (packages / files))
    if options.check and packages > BOUND * files:
        sys.exit("more than %.1f times as long" % BOUND)


if __name__ == "__main__":
    main()
