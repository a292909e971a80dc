"""The server to which the scripts of tests/scripts/skills/request-scripts send requests."""
import base64
import contextlib
import email.parser
import email.policy
import gzip
import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

FEED = b"<feed><entry><title>One</title></entry><entry><title>Two</title></entry></feed>"
PAGE = '<html><title>T\u00e9st</title><a href="/a">A</a><a href="/b?x=1&amp;y=2">B</a></html>'.encode()
TABLE = """<table><tr><th>Name</th><th>Price</th></tr>
<tr><td>Tea &amp; <b>milk</b></td><td>€3.50</td></tr><tr><td>"Cake",
  large</td><td>€1,004.25</td></tr></table>""".encode()
SITE = {
    "index.html": '<a href="a.html">A</a> <a href="b/">B</a> <a href="https://elsewhere.invalid/">C</a>',
    "a.html": '<a href="index.html#top">back</a> <a href="/site/none.html">none</a> <a href="../xml">feed</a>',
    "b/": '<a href="../a.html">A</a> <a href="/site/private/x.html">private</a>',
}
FILE = bytes(range(256)) * 2000
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
            case ["token"]:
                form = parse_qs(body.decode())
                is_right = form.get("client_secret") == ["s p&c"]
                self.reply({"access_token": "fresh", "expires_in": 3600} if is_right else {}, 200 if is_right else 400)
            case ["protected"]:
                if self.headers.get("Authorization") == "Bearer fresh":
                    self.reply({"ok": True})
                else:
                    error = 'Bearer error="invalid_token"'
                    self.reply({"ok": False}, 401, headers=[("WWW-Authenticate", error)])
            case ["graphql"]:
                first = json.loads(body)["variables"]["first"]
                wrong = [{"message": "first is negative", "path": ["items"]}]
                items = {"items": [{"id": it} for it in range(first)]}
                self.reply({"data": items} if first >= 0 else {"data": None, "errors": wrong})
            case ["signed"]:
                text = b"v0:%b:%b" % (self.headers["X-Signature-Timestamp"].encode(), body)
                right = "v0=" + hmac.new(b"shared key", text, hashlib.sha256).hexdigest()
                is_right = hmac.compare_digest(right, self.headers["X-Signature"])
                self.reply({"accepted": is_right, "event": json.loads(body)}, 200 if is_right else 403)
            case ["upload"]:
                head = b"Content-Type: %b\r\n\r\n" % self.headers["Content-Type"].encode()
                message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
                parts = [[part.get_param("name", header="content-disposition"), part.get_filename(),
                          part.get_content_type(), len(part.get_payload(decode=True))] for part in message.iter_parts()]
                self.reply({"parts": parts})
            case ["document"]:
                tag = '"version-1"'
                if self.headers.get("If-None-Match") == tag:
                    self.send_response(304)
                    self.send_header("ETag", tag)
                    self.end_headers()
                else:
                    self.reply(b"the document", kind="text/plain", headers=[("ETag", tag)])
            case ["ranges"]:
                start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
                part = FILE[start:end + 1]
                span = "bytes %d-%d/%d" % (start, start + len(part) - 1, len(FILE))
                self.reply(part, 206, "application/octet-stream", [("Content-Range", span)])
            case ["jobs"]:
                self.server.polls = 0
                self.reply({"id": 7}, 202, headers=[("Location", "/jobs/7")])
            case ["jobs", "7"] if self.command == "DELETE":
                self.server.polls = None
                self.reply(status=204)
            case ["jobs", "7"] if self.server.polls is not None:
                self.server.polls += 1
                is_done = self.server.polls > 3
                self.reply({"state": "done" if is_done else "running", "progress": min(self.server.polls * 30, 100),
                            "result": {"rows": 12} if is_done else None})
            case ["limited"]:
                # Each third request is answered.
                self.server.limited += 1
                if self.server.limited % 3:
                    self.reply({}, 429, headers=[("Retry-After", "0.05")] if self.server.limited % 3 == 1 else [])
                else:
                    self.reply({"query": query})
            case ["table"]:
                self.reply(TABLE, kind="text/html; charset=utf-8")
            case ["robots.txt"]:
                self.reply(b"User-agent: *\nDisallow: /site/private/\n", kind="text/plain")
            case ["site", *rest] if "/".join(rest) in SITE:
                self.reply(SITE["/".join(rest)].encode(), kind="text/html")
            case ["records"]:
                start = int(query.get("cursor", ["c0"])[0][1:])
                end = min(start + int(query["limit"][0]), 10)
                data = [{"id": it, "name": "name %d" % it, "created": "2026-01-%02dT10:00:00+00:00" % (it + 1)}
                        for it in range(start, end)]
                self.reply({"data": data, "has_more": end < 10, "next_cursor": "c%d" % end})
            case ["export"]:
                lines = [{"level": ["info", "warn", "error"][it % 3], "count": it} for it in range(2000)]
                text = "".join(json.dumps(line) + "\n" for line in lines)
                self.reply(text.encode(), kind="application/x-ndjson")
            case ["login"] if self.command == "POST":
                form = parse_qs(body.decode())
                is_right = form == {"user": ["ada"], "password": ["lovelace"], "csrf": ["abc123"]}
                cookies = [("Set-Cookie", "session=s1; Path=/; HttpOnly")] if is_right else []
                self.reply({"logged_in": is_right}, headers=cookies)
            case ["login"]:
                form = b'<form method="post"><input type="hidden" name="csrf" value="abc123"></form>'
                self.reply(form, kind="text/html", headers=[("Set-Cookie", "visit=1; Path=/login")])
            case ["account"]:
                self.reply({"cookies": self.headers.get("Cookie")})
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
    found.flaky, found.limited, found.polls, found.slow = 0, 0, None, threading.Event()
    threading.Thread(target=found.serve_forever, daemon=True).start()
    try:
        yield found.server_port
    finally:
        found.slow.set()
        found.shutdown()
        found.server_close()
