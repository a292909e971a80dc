"""The server to which the scripts of tests/scripts/skills/request-scripts send requests."""
import base64
import contextlib
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

FEED = b"<feed><entry><title>One</title></entry><entry><title>Two</title></entry></feed>"
PAGE = '<html><title>T\u00e9st</title><a href="/a">A</a><a href="/b?x=1&amp;y=2">B</a></html>'.encode()
# The headers of a request that `/echo` returns: libraries send different ones besides.
ECHOED = ["accept", "authorization", "content-type", "cookie", "x-test"]


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Ignores clients that do not wait for their answer."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, body=b"", status=200, kind="application/json", headers=()):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in [*headers, ("Content-Type", kind), ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def do_GET(self):
        url, body = urlsplit(self.path), self.body()
        query = parse_qs(url.query)
        match url.path.split("/")[1:]:
            case ["echo"]:
                headers = {name: self.headers[name] for name in ECHOED if name in self.headers}
                self.reply({"method": self.command, "query": query, "body": body.decode("latin-1"), "headers": headers})
            case ["items"]:
                page = int(query.get("page", ["1"])[0])
                link = f'<http://{self.headers["Host"]}/items?page={page + 1}>; rel="next"'
                self.reply([{"id": page * 10 + it} for it in range(3)], headers=[("Link", link)] if page < 3 else [])
            case ["status", code]:
                self.reply({"error": {"code": int(code), "message": "as asked"}}, int(code))
            case ["redirect"]:
                self.reply(status=302, headers=[("Location", "/echo?from=redirect")])
            case ["flaky"]:
                # Each third request is answered.
                self.server.flaky += 1
                self.reply({"attempts": 3}, 503 if self.server.flaky % 3 else 200)
            case ["basic"]:
                token = base64.b64encode(b"ada:secret").decode()
                if self.headers.get("Authorization") == "Basic " + token:
                    self.reply({"ok": True})
                else:
                    self.reply({"ok": False}, 401, headers=[("WWW-Authenticate", 'Basic realm="test"')])
            case ["page"]:
                self.reply(PAGE, kind="text/html; charset=utf-8")
            case ["gzip"]:
                self.reply(gzip.compress(b'{"packed": true}'), headers=[("Content-Encoding", "gzip")])
            case ["lines"]:
                self.lines()
            case ["file"]:
                self.reply(bytes(range(256)) * 4096, kind="application/octet-stream")
            case ["cookie"]:
                self.reply({}, headers=[("Set-Cookie", "session=abc; Path=/"), ("Set-Cookie", "theme=dark; Path=/")])
            case ["slow"]:
                self.server.slow.wait(30)
                self.close_connection = True
            case ["xml"]:
                self.reply(FEED, kind="application/xml")
            case _:
                self.reply({"error": "not found"}, 404)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

    def lines(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(5):
            line = b'data: {"n": %d}\n\n' % number
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def server():
    """Starts the server. Returns its port."""
    found = Server(("127.0.0.1", 0), Handler)
    found.flaky, found.slow = 0, threading.Event()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    try:
        yield found.server_port
    finally:
        found.slow.set()
        found.shutdown()
        found.server_close()
