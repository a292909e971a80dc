"""The servers that the kits send requests to, one of them over TLS, and the requests of the tool
`parity`."""
import contextlib
import http.server
import json
import pathlib
import ssl
import subprocess
import tempfile
import threading

import program

SECRET = "the-secret-of-the-tests"
# Asks for the network, so that a component in JavaScript imports `wasi:http`.
NEEDS = """
[[network]]
rule = "http://localhost:8080/*"
why = "the tests"
"""
GRANT = """
network = ["http://localhost:%(port)d/granted/*", "https://localhost:%(tls_port)d/*"]

[grants."parity.wasm".secrets.TOKEN]
file = "token"
header = "authorization"
hosts = ["localhost:%(tls_port)d"]

[network]
ca_file = "ca.pem"
"""


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Ignores clients that do not wait for their answer."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.endswith("/secret"):
            is_right = self.headers["authorization"] == "Bearer " + SECRET
            self.answer(b"right" if is_right else b"wrong", x_kind="a kind")
        elif path.endswith("/missing"):
            self.answer(b"nothing there", 404)
        elif path.endswith("/redirect"):
            self.answer(b"", 302, location="/granted/plain")
        elif path.endswith("/elsewhere"):
            self.answer(b"", 302, location="/denied")
        elif path.endswith("/headers"):
            self.answer(json.dumps({name.lower(): value for name, value in self.headers.items()}).encode())
        elif path.endswith("/slow"):
            self.server.slow.wait(5)
            self.answer(b"late")
        elif path.endswith("/both"):
            # Two simultaneous requests wait for each other here.
            self.server.both.wait(20)
            self.answer(b"met")
        elif path.endswith("/json"):
            self.answer(b'{"a": [1, 2]}', content_type="application/json", set_cookie="a=1")
        else:
            self.answer("plain \u00e9".encode())

    def do_HEAD(self):
        self.answer(b"")

    def do_POST(self):
        body = self.body()
        if self.headers["content-type"] == "application/json":
            self.answer(json.dumps({"echo": json.loads(body)["path"]}).encode())
        else:
            self.answer(self.headers.get("content-type", "none").encode() + b"\n" + body)

    def do_PUT(self):
        # The answer is longer than a chunk.
        self.answer(self.body() * 100_000)

    do_DELETE = do_PATCH = do_PUT


@contextlib.contextmanager
def servers(folder):
    """Starts both servers. Writes the certificate of their authority, and the secret, to the folder.
    Returns the ports."""
    key, certificate = folder / "server.key", folder / "server.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    with tempfile.TemporaryDirectory(prefix="ca-") as private:
        ca, ca_key, request = folder / "ca.pem", pathlib.Path(private, "ca.key"), pathlib.Path(private, "request")
        extensions = pathlib.Path(private, "extensions")
        extensions.write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        for command in [
            [*make, "-subj", "/CN=tests", "-keyout", ca_key, "-out", ca],
            ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
             "/CN=localhost", "-keyout", key, "-out", request],
            ["openssl", "x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial",
             "-days", "2", "-extfile", extensions, "-out", certificate],
        ]:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    token = folder / "token"
    token.write_text(SECRET)
    token.chmod(0o600)
    plain, secure = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    for server in (plain, secure):
        server.slow = threading.Event()
        server.both = threading.Barrier(2)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {"port": plain.server_port, "tls_port": secure.server_port}
    finally:
        for server in (plain, secure):
            server.slow.set()
            server.shutdown()
            server.server_close()


def parity(folder, language, configuration):
    """Calls the tool `parity` without and with a grant of the network. The configuration ends with
    its grant."""
    def call(action, path):
        arguments = {"skill_name": "parity-files", "action": action, "path": path}
        return program.run(folder, "--config", str(folder / "network.toml"), "call", "parity", json.dumps(arguments))

    with servers(folder) as ports:
        plain = "http://localhost:%(port)d" % ports
        secure = "https://localhost:%(tls_port)d" % ports
        (folder / "network.toml").write_text(configuration)
        denied = "GET %s/granted/plain: network access is not granted for this address" % plain
        assert call("get", plain + "/granted/plain?q").exits_with(1).stdout == denied
        assert call("kind", secure + "/secret").exits_with(0).stdout == "denied"

        (folder / "network.toml").write_text(configuration + GRANT % ports)
        for action, url, answer in [
            ("get", plain + "/granted/plain#part", "200 - plain \u00e9"),
            ("get", plain + "/granted/missing", "404 - nothing there"),
            # The secret goes only to its host, and over TLS.
            ("secret", secure + "/secret", "200 a kind right"),
            ("get", secure + "/secret", "200 a kind wrong"),
            # The host follows no redirect.
            ("get", plain + "/granted/redirect", "302 - "),
            ("post", secure + "/echo", "a knot"),
            ("stream", plain + "/granted/large", "600000 bytes"),
            ("kind", plain + "/denied", "denied"),
            ("kind", "https://127.0.0.1:%(tls_port)d/secret" % ports, "denied"),
            ("kind", "nothing", "protocol"),
            ("kind", "ftp://localhost/", "protocol"),
        ]:
            found = call(action, url).exits_with(0).stdout
            assert found == answer, (action, url, found)
        leaks = call("secret", plain + "/granted/secret").exits_with(1).stdout
        assert leaks == denied.replace("/plain", "/secret"), leaks
        if language == "javascript":
            # Both requests of `fetch` are sent before the first is answered.
            found = call("fetch", plain + "/granted/both").exits_with(0).stdout
            assert found == "met met", found
    print("  requests end as in the other languages", flush=True)
