"""HTTP requests. The host sends those that the operator's grant for the tool allows, and denies all others.

    response = get("https://api.example.org/v1/forecast?place=Kiel", headers={"accept": "application/json"})
    if response.status == 200:
        forecast = response.json()

A project that imports this module asks for the network in `needs.toml`. A variable that holds a secret has
a placeholder in the sandbox; the host puts the secret in its place. Redirects are not followed: a tool reads
the header `location`.
"""

import json as json_module
from urllib.parse import quote, urlsplit

try:
    from wit_world.imports import wasi_http_outgoing_handler as handler
    from wit_world.imports import wasi_http_types as wasi
    from wit_world.imports import wasi_io_streams as streams
except ImportError:
    raise ImportError(
        "skillhost_http needs the network: add an entry `[[network]]` to `needs.toml`") from None
from componentize_py_types import Err, Ok

# The default maximum size of a body that `bytes`, `text` and `json` read.
MAX_BODY_BYTES = 16 << 20
# The maximum size of a chunk of a streamed body.
CHUNK_BYTES = 64 << 10
# The characters that a path and a query keep. A percent sign belongs to an escape.
PLAIN = "%!$&'()*+,;=:@/?-._~[]"


class HttpError(Exception):
    """The error of a request, or of reading its response. `kind` is the kind of its class."""

    kind = "other"
    reason = "the request failed"
    # The kind of a call's failure that this error causes.
    failure_kind = "FAILED"

    def __init__(self, reason=None, where=""):
        super().__init__(f"{where}: {reason or self.reason}" if where else reason or self.reason)


class DeniedError(HttpError):
    """The grant of the tool does not allow the request."""

    kind = "denied"
    reason = "network access is not granted for this address"
    failure_kind = "REFUSED"


class NameNotFoundError(HttpError):
    """The host name has no address."""

    kind = "name"
    reason = "the host name has no address"


class ConnectError(HttpError):
    """The server cannot be reached, or it ended the connection early."""

    kind = "connection"
    reason = "cannot connect, or the connection ended early"


class NoAnswerError(HttpError):
    """The server did not answer in time."""

    kind = "timeout"
    reason = "no answer in time"


class CertificateError(HttpError):
    """The server's certificate is not valid."""

    kind = "certificate"
    reason = "the server's certificate is not valid"


class ProtocolError(HttpError):
    """The address, the request or the response is not valid."""

    kind = "protocol"
    reason = "invalid address, request or response"


class LimitError(HttpError):
    """A call may not send more requests or bytes."""

    kind = "limit"
    reason = "more requests or bytes than a call may have"


# The errors of the codes of wasi:http. Codes of sizes are limits.
ERRORS = {
    "HttpRequestDenied": DeniedError,
    "DestinationIpProhibited": DeniedError,
    "DnsTimeout": NameNotFoundError,
    "DnsError": NameNotFoundError,
    "DestinationNotFound": NameNotFoundError,
    "DestinationUnavailable": ConnectError,
    "DestinationIpUnroutable": ConnectError,
    "ConnectionRefused": ConnectError,
    "ConnectionTerminated": ConnectError,
    "ConnectionTimeout": NoAnswerError,
    "ConnectionReadTimeout": NoAnswerError,
    "ConnectionWriteTimeout": NoAnswerError,
    "HttpResponseTimeout": NoAnswerError,
    "TlsProtocolError": CertificateError,
    "TlsCertificateError": CertificateError,
    "TlsAlertReceived": CertificateError,
    "ConnectionLimitReached": LimitError,
    "HttpRequestUriTooLong": LimitError,
    "LoopDetected": HttpError,
    "ConfigurationError": HttpError,
    "InternalError": HttpError,
}


def _error(code, where):
    name = type(code).__name__.removeprefix("ErrorCode_")
    return ERRORS.get(name, LimitError if name.endswith("Size") else ProtocolError)(where=where)


def _close(resource):
    """Drops a resource: the host refuses to drop what it belongs to before."""
    resource.__exit__(None, None, None)


class Exchange:
    """A request that is being sent, and its response. Sends and receives bodies in pieces."""

    def __init__(self, method, scheme, authority, path, headers, timeout=None, has_body=False):
        """Sends the head of a request. `headers` is an iterable of pairs; `timeout` is in seconds."""
        self._where = f"{method} {scheme}://{authority}{path.partition('?')[0]}"
        self._future = self._body = self._sink = None
        try:
            fields = wasi.Fields()
            for name, value in headers:
                fields.append(name, value if isinstance(value, bytes) else str(value).encode("latin-1"))
            request = wasi.OutgoingRequest(fields)
            known = getattr(wasi, f"Method_{method.capitalize()}", None) if method.isupper() else None
            request.set_method(known() if known and method != "OTHER" else wasi.Method_Other(method))
            request.set_scheme(wasi.Scheme_Https() if scheme == "https" else wasi.Scheme_Http())
            request.set_authority(authority)
            request.set_path_with_query(path)
            if has_body:
                self._body = request.body()
            self._future = handler.handle(request, _options(timeout))
        except Err as error:
            if "ErrorCode_" in type(error.value).__name__:
                raise _error(error.value, self._where) from None
            raise ProtocolError(where=self._where) from None
        except UnicodeError:
            raise ProtocolError("invalid characters in a header", self._where) from None
        if has_body:
            self._sink = self._body.write()

    def write(self, data):
        """Sends a piece of the request's body. After an error here, the response says why."""
        data = bytes(data)
        try:
            while data and self._sink is not None:
                size = self._sink.check_write()
                if size:
                    self._sink.write(data[:size])
                    data = data[size:]
                else:
                    pollable = self._sink.subscribe()
                    pollable.block()
                    _close(pollable)
        except Err:
            _close(self._sink)
            self._sink = None

    def response(self):
        """Ends the request. Returns the status of the response, and its headers as a list of pairs."""
        if self._body is not None:
            self._end_body()
        pollable = self._future.subscribe()
        pollable.block()
        _close(pollable)
        result = self._future.get()
        while isinstance(result, Ok):
            result = result.value
        if isinstance(result, Err):
            raise _error(result.value, self._where)
        self._incoming = result
        headers = [(name, value.decode("latin-1")) for name, value in result.headers().entries()]
        return result.status(), headers

    def _end_body(self):
        body, self._body = self._body, None
        try:
            if self._sink is not None:
                self._sink.blocking_flush()
        except Err:
            pass
        if self._sink is not None:
            _close(self._sink)
            self._sink = None
        try:
            wasi.OutgoingBody.finish(body, None)
        except Err:
            pass

    def stream(self):
        """Yields the chunks of the response's body, of any size."""
        try:
            body = self._incoming.consume()
            source = body.stream()
        except Err:
            raise ProtocolError("the body was read before", self._where) from None
        try:
            while True:
                try:
                    chunk = source.blocking_read(CHUNK_BYTES)
                except Err as error:
                    if isinstance(error.value, streams.StreamError_Closed):
                        return
                    code = wasi.http_error_code(error.value.value)
                    raise ConnectError(where=self._where) if code is None else _error(code, self._where) from None
                if chunk:
                    yield chunk
        finally:
            _close(source)
            _close(body)


def _options(timeout):
    if timeout is None:
        return None
    nanoseconds = max(1, round(timeout * 1e9))
    options = wasi.RequestOptions()
    options.set_connect_timeout(nanoseconds)
    options.set_first_byte_timeout(nanoseconds)
    options.set_between_bytes_timeout(nanoseconds)
    return options


class Headers(dict):
    """The headers of a response, with names in lower case. Finds a name in any case. Values of headers of the
    same name are joined with a comma."""

    def __init__(self, pairs):
        super().__init__()
        for name, value in pairs:
            name = name.lower()
            self[name] = f"{self[name]}, {value}" if name in self else value

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return super().__contains__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class Response:
    """A response."""

    def __init__(self, exchange, where):
        self._exchange = exchange
        self._where = where
        status, pairs = exchange.response()
        # The status, such as 200.
        self.status = status
        self.headers = Headers(pairs)
        self._content = None

    def stream(self):
        """Yields the chunks of the body, of any size."""
        return self._exchange.stream()

    def bytes(self, limit=MAX_BODY_BYTES):
        """Returns the body. Fails if it has more than `limit` bytes."""
        if self._content is None:
            content = bytearray()
            for chunk in self.stream():
                content += chunk
                if len(content) > limit:
                    raise LimitError(f"the response has more than {limit} bytes", self._where)
            self._content = bytes(content)
        return self._content

    def text(self, limit=MAX_BODY_BYTES):
        """Returns the body as text in UTF-8. Fails as `bytes` does."""
        return self.bytes(limit).decode("utf-8", "replace")

    def json(self, limit=MAX_BODY_BYTES):
        """Returns the value of a body of JSON. Fails as `bytes` does."""
        try:
            return json_module.loads(self.bytes(limit))
        except ValueError as error:
            raise ProtocolError(f"unexpected JSON: {error}", self._where) from None


def get(url, *, headers=(), timeout=None):
    """Sends a GET request. See `request`."""
    return request("GET", url, headers=headers, timeout=timeout)


def post(url, *, headers=(), json=None, body=None, timeout=None):
    """Sends a POST request. See `request`."""
    return request("POST", url, headers=headers, json=json, body=body, timeout=timeout)


def request(method, url, *, headers=(), json=None, body=None, timeout=None):
    """Sends a request, and waits for the head of the response.

    `headers` is a mapping or an iterable of pairs. `json` is a value to send; `body` is a text, bytes, or an
    iterable of bytes, which is sent in pieces. `timeout` is the maximum time to connect, to wait for the
    response, and between two chunks of its body, in seconds."""
    where = f"{method} {url.partition('?')[0]}"
    try:
        parts = urlsplit(url)
        authority = parts.netloc.encode("idna").decode() if not parts.netloc.isascii() else parts.netloc
    except ValueError:
        raise ProtocolError(where=where) from None
    if parts.scheme not in ("http", "https") or not authority or "@" in authority:
        raise ProtocolError(where=where)
    path = quote(parts.path or "/", safe=PLAIN) + (f"?{quote(parts.query, safe=PLAIN)}" if parts.query else "")
    pairs = list(headers.items() if hasattr(headers, "items") else headers)
    names = {name.lower() for name, _ in pairs}
    if json is not None:
        body = json_module.dumps(json)
        if "content-type" not in names:
            pairs.append(("content-type", "application/json"))
    if isinstance(body, str):
        body = body.encode()
    if isinstance(body, (bytes, bytearray)):
        body = [body]
        if "content-length" not in names:
            pairs.append(("content-length", str(len(body[0]))))
    exchange = Exchange(method, parts.scheme, authority, path, pairs, timeout, body is not None)
    for piece in body or ():
        exchange.write(piece)
    return Response(exchange, where)
