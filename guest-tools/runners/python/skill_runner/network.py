"""HTTP requests of scripts. Libraries write HTTP/1.1 to what they take for a socket. `HttpSocket` sends each
request through the host, which resolves names, speaks TLS and applies the tool's grant."""

import errno
import http
import io
import os
import socket
import ssl

import skillhost_http
from skillhost_http import (
    CertificateError, ConnectError, DeniedError, Exchange, HttpError, LimitError, NameNotFoundError, NoAnswerError)

from . import unsupported

# The variable in which the host puts the rules of the grant, one per line.
RULES_VARIABLE = "SKILLHOST_NETWORK"
# The maximum size of the head of a request. Guards against: a script that writes no end of it.
MAX_HEAD_BYTES = 1 << 18
# The headers that the host makes itself.
OWN_HEADERS = {
    "host", "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
    "transfer-encoding", "upgrade", "http2-settings", "te", "expect",
}
# The headers of a response that do not hold for the bytes that a library gets.
CONNECTION_HEADERS = {"transfer-encoding", "connection", "keep-alive"}
PORTS = {"http": 80, "https": 443}


def is_granted():
    """Returns whether the tool's grant allows any request."""
    return bool(os.environ.get(RULES_VARIABLE, "").strip())


def _denied(address):
    """Returns the error of a denied connection, and notes it."""
    line = unsupported.NOTES.add(f"{address}: {unsupported.NETWORK}")
    return ConnectionRefusedError(errno.ECONNREFUSED, line)


class HttpSocket:
    """Stands in for a connected socket."""

    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, 0

    def __init__(self, host, port, timeout=None):
        if not is_granted():
            raise _denied(host)
        self._host, self._port = host, port
        self._timeout = timeout
        self._scheme = "http"
        self._is_closed = False
        # The bytes of a request's head so far, and the rest of its body: a number of bytes, or `Chunks`.
        self._head = bytearray()
        self._rest = None
        self._exchange = None
        self._method = ""
        # The responses that are not read, as iterators over their bytes.
        self._responses = []
        self._has_sent = False
        self._received = b""

    def start_tls(self, server_hostname):
        """Makes the requests go over TLS."""
        self._scheme = "https"
        return self

    # Requests.

    def sendall(self, data, flags=0):
        data = memoryview(bytes(data))
        while data:
            if self._exchange is None:
                data = self._add_head(data)
            elif isinstance(self._rest, Chunks):
                data = self._rest.feed(data, self._exchange.write)
                if self._rest.is_ended:
                    self._end_request()
            else:
                self._exchange.write(data[:self._rest])
                sent = min(len(data), self._rest)
                data, self._rest = data[sent:], self._rest - sent
                if not self._rest:
                    self._end_request()

    def send(self, data, flags=0):
        self.sendall(data)
        return len(data)

    def _add_head(self, data):
        """Adds bytes to the head of a request, and begins the request at its end. Returns the bytes after it."""
        before = len(self._head)
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > MAX_HEAD_BYTES:
                raise OSError(errno.EMSGSIZE, "the head of the request is too large")
            return data[:0]
        rest = data[end + 4 - before:]
        head, self._head = bytes(self._head[:end]), bytearray()
        self._begin_request(head)
        return rest

    def _begin_request(self, head):
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, target = first.partition(" ")
        path, _, version = target.rpartition(" ")
        if not version.startswith("HTTP/1."):
            raise self._other_protocol()
        if not path.startswith("/"):
            raise OSError(errno.EOPNOTSUPP, unsupported.NOTES.add(f"{self._host}: the sandbox uses no proxies"))
        fields = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        values = {name.lower(): value for name, value in fields}
        is_chunked = "chunked" in values.get("transfer-encoding", "").lower()
        length = int(values.get("content-length", "0") or "0")
        headers = [(name, value) for name, value in fields if name.lower() not in OWN_HEADERS]
        host = f"[{self._host}]" if ":" in self._host else self._host
        authority = host if self._port == PORTS[self._scheme] else f"{host}:{self._port}"
        has_body = is_chunked or length > 0
        self._method, self._has_sent = method, True
        self._exchange = self._converted(
            Exchange, method, self._scheme, authority, path, headers, self._timeout, has_body)
        self._rest = Chunks() if is_chunked else length
        if not has_body:
            self._end_request()

    def _end_request(self):
        """Waits for the head of the response, because libraries expect errors of a connection here."""
        exchange, self._exchange = self._exchange, None
        try:
            status, headers = exchange.response()
        except HttpError as error:
            error = self._os_error(error)
            if isinstance(error, (TimeoutError, ConnectionAbortedError)):
                self._responses.append(_failing(error))
                return
            raise error from None
        self._responses.append(self._response(exchange, self._method, status, headers))

    # Responses.

    def _response(self, exchange, method, status, headers):
        """Yields a response as HTTP/1.1."""
        try:
            reason = http.HTTPStatus(status).phrase
        except ValueError:
            reason = ""
        has_body = method != "HEAD" and status not in (204, 304) and status >= 200
        has_length = any(name.lower() == "content-length" for name, _ in headers)
        lines = [f"HTTP/1.1 {status} {reason}"]
        lines += [f"{name}: {value}" for name, value in headers if name.lower() not in CONNECTION_HEADERS]
        if has_body and not has_length:
            lines.append("transfer-encoding: chunked")
        yield "\r\n".join([*lines, "", ""]).encode("latin-1")
        if not has_body:
            return
        chunks = exchange.stream()
        while True:
            chunk = self._converted(next, chunks, None)
            if chunk is None:
                break
            yield chunk if has_length else b"%x\r\n%b\r\n" % (len(chunk), chunk)
        if not has_length:
            yield b"0\r\n\r\n"

    def recv(self, size, flags=0):
        while not self._received:
            if not self._responses:
                if self._has_sent:
                    return b""
                raise self._other_protocol()
            self._received = next(self._responses[0], None) or b""
            if not self._received:
                self._responses.pop(0)
        data, self._received = self._received[:size], self._received[size:]
        return data

    def recv_into(self, buffer, size=0, flags=0):
        data = self.recv(size or len(buffer))
        buffer[: len(data)] = data
        return len(data)

    read, write = recv, send

    def makefile(self, mode="r", buffering=None, *, encoding=None, errors=None, newline=None):
        raw = _RawFile(self)
        if buffering == 0:
            return raw
        file = io.BufferedWriter(raw) if mode in ("w", "wb") else io.BufferedReader(raw)
        return file if "b" in mode else io.TextIOWrapper(file, encoding, errors, newline)

    # Errors.

    def _converted(self, function, *arguments):
        try:
            return function(*arguments)
        except HttpError as error:
            raise self._os_error(error) from None

    def _os_error(self, error):
        """Returns the error that a socket would have."""
        match error:
            case DeniedError():
                return _denied(self._host)
            case NameNotFoundError():
                return socket.gaierror(socket.EAI_NONAME, f"{self._host}: name or service not known")
            case ConnectError():
                return ConnectionRefusedError(errno.ECONNREFUSED, f"{self._host}: {error.reason}")
            case NoAnswerError():
                return TimeoutError("timed out")
            case CertificateError():
                return ssl.SSLCertVerificationError(1, f"certificate verify failed: {self._host}")
            case LimitError():
                line = unsupported.NOTES.add(f"{self._host}: {unsupported.REQUESTS}")
                return ConnectionAbortedError(errno.ECONNABORTED, line)
        return ConnectionAbortedError(errno.ECONNABORTED, str(error))

    def _other_protocol(self):
        line = unsupported.NOTES.add(f"{self._host}:{self._port}: {unsupported.SOCKET}")
        return OSError(errno.EPROTONOSUPPORT, line)

    # What else libraries ask of a socket.

    def settimeout(self, timeout):
        self._timeout = timeout

    def gettimeout(self):
        return self._timeout

    def setblocking(self, is_blocking):
        self._timeout = None if is_blocking else 0.0

    def setsockopt(self, *arguments):
        """Does nothing."""

    def shutdown(self, how):
        """Does nothing."""

    def getsockopt(self, *arguments):
        return 0

    def fileno(self):
        return -1

    def getpeername(self):
        return self._host, self._port

    def getsockname(self):
        return "127.0.0.1", 0

    def getpeercert(self, binary_form=False):
        return b"" if binary_form else {}

    def version(self):
        return "TLSv1.3" if self._scheme == "https" else None

    def cipher(self):
        return None

    def selected_alpn_protocol(self):
        return None

    def pending(self):
        return len(self._received)

    def unwrap(self):
        return self

    def detach(self):
        return -1

    def close(self):
        # A file of the socket may still read the response.
        self._is_closed = True

    def __enter__(self):
        return self

    def __exit__(self, *arguments):
        self.close()


class _RawFile(io.RawIOBase):
    """The file of a socket."""

    def __init__(self, sock):
        self._sock = sock

    def readable(self):
        return True

    writable = readable

    def readinto(self, buffer):
        return self._sock.recv_into(buffer)

    def write(self, data):
        return self._sock.send(data)


class Chunks:
    """Reads a body in chunks."""

    def __init__(self):
        self.is_ended = False
        self._line = bytearray()
        # The bytes of the chunk that are missing, with the line break after it; None in a line.
        self._missing = None
        self._is_last = False

    def feed(self, data, write):
        """Gives the bytes of chunks to `write`. Returns the bytes after the body."""
        while data and not self.is_ended:
            if self._missing is None:
                self._line += data[:1]
                data = data[1:]
                if self._line.endswith(b"\r\n"):
                    self._end_line()
            else:
                part = data[:self._missing]
                if self._missing > 2:
                    write(part[:self._missing - 2])
                data = data[len(part):]
                self._missing = self._missing - len(part) or None
        return data

    def _end_line(self):
        line, self._line = bytes(self._line[:-2]), bytearray()
        if self._is_last:
            self.is_ended = not line
            return
        size = int(line.partition(b";")[0], 16)
        self._is_last = size == 0
        self._missing = size + 2 if size else None


def _failing(error):
    """Returns an iterator that fails."""
    raise error
    yield


def create_connection(address, timeout=socket._GLOBAL_DEFAULT_TIMEOUT, source_address=None, *others, **named):
    """Replaces the function of `socket` and that of urllib3."""
    host, port = address
    if timeout is socket._GLOBAL_DEFAULT_TIMEOUT:
        timeout = socket.getdefaulttimeout()
    elif timeout is not None and not isinstance(timeout, (int, float)):
        timeout = None
    return HttpSocket(host.strip("[]"), int(port), timeout)


def replace():
    """Makes libraries send requests through the host."""
    socket.create_connection = create_connection
    skillhost_http._close = _close
    _replace_urllib3()
    _replace_httpcore()


def _close(resource):
    """Drops a resource, unless a function of `atexit` has. The garbage collector closes unread bodies after that."""
    if resource.finalizer.alive:
        resource.__exit__(None, None, None)


def _replace_urllib3():
    import requests.adapters
    import urllib3.connection
    import urllib3.util.connection

    def connect(self):
        self.sock = create_connection((self.host, self.port), self.timeout).start_tls(self.host)
        self.is_verified = True
        self.proxy_is_verified = None

    urllib3.util.connection.create_connection = create_connection
    urllib3.connection.HTTPSConnection.connect = connect
    urllib3.connection.HTTPConnection.is_connected = property(lambda self: self.sock is not None)
    # It looks for files of certificates, which only the host has.
    requests.adapters.HTTPAdapter.cert_verify = lambda *arguments: None


def _replace_httpcore():
    import asyncio

    import httpcore
    from httpcore._backends import auto, sync

    def call(function, timeout_error, other_error):
        try:
            return function()
        except TimeoutError as error:
            raise timeout_error(error) from error
        except (socket.gaierror, ConnectionRefusedError, ssl.SSLError) as error:
            raise httpcore.ConnectError(error) from error
        except OSError as error:
            raise other_error(error) from error

    def read(self, max_bytes, timeout=None):
        return call(lambda: self._sock.recv(max_bytes), httpcore.ReadTimeout, httpcore.ReadError)

    def write(self, buffer, timeout=None):
        self._sock.settimeout(timeout)
        call(lambda: self._sock.sendall(buffer), httpcore.WriteTimeout, httpcore.WriteError)

    sync.SyncStream.read, sync.SyncStream.write = read, write

    class AsyncStream(httpcore.AsyncNetworkStream):
        """A stream for async code. Its functions block."""

        def __init__(self, stream):
            self._stream = stream

        async def read(self, max_bytes, timeout=None):
            return self._stream.read(max_bytes, timeout)

        async def write(self, buffer, timeout=None):
            self._stream.write(buffer, timeout)

        async def start_tls(self, ssl_context, server_hostname=None, timeout=None):
            return AsyncStream(self._stream.start_tls(ssl_context, server_hostname, timeout))

        async def aclose(self):
            self._stream.close()

        def get_extra_info(self, info):
            return self._stream.get_extra_info(info)

    async def connect_tcp(self, *arguments, **named):
        return AsyncStream(sync.SyncBackend().connect_tcp(*arguments, **named))

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)

    auto.AutoBackend.connect_tcp, auto.AutoBackend.sleep = connect_tcp, sleep
