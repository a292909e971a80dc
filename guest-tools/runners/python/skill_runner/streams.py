"""stdin, stdout and stderr of a script, in memory. Keeps the output of both streams in the order of writing.
`execute` builds the answer from it."""

import _io
import builtins
import collections
import io
import os
import sys

# The maximum numbers of bytes of stdout and stderr to keep from the beginning and from the end.
# Guards against: a script that fills the call's memory or the model's context with its output.
MAX_FIRST_BYTES = 192 << 10
MAX_LAST_BYTES = 64 << 10
# The size at which a chunk is full. Guards against: a chunk for each byte.
FULL_CHUNK_BYTES = 4 << 10

STDIN, STDOUT, STDERR = 0, 1, 2


class Output:
    """The output of a script to both streams. A chunk is the number of its stream and bytes."""

    def __init__(self):
        self._first = []
        self._last = collections.deque()
        self._first_free_bytes = MAX_FIRST_BYTES
        self._last_bytes = 0
        self.left_out = 0

    def add(self, stream, data):
        data = bytes(data)
        if self._first_free_bytes > 0:
            _append(self._first, stream, data[: self._first_free_bytes])
            data, self._first_free_bytes = data[self._first_free_bytes :], self._first_free_bytes - len(data)
        if not data:
            return
        self.left_out += max(0, len(data) - MAX_LAST_BYTES)
        data = data[-MAX_LAST_BYTES:]
        _append(self._last, stream, data)
        self._last_bytes += len(data)
        while self._last_bytes > MAX_LAST_BYTES:
            stream, oldest = self._last[0]
            excess = min(len(oldest), self._last_bytes - MAX_LAST_BYTES)
            del oldest[:excess]
            self._last_bytes -= excess
            self.left_out += excess
            if not oldest:
                self._last.popleft()

    def text(self, stream=None):
        """Returns the text of one stream, or of both in the order of writing."""
        def join(chunks):
            joined = b"".join(data for written, data in chunks if stream in (None, written))
            return joined.decode("utf-8", "replace")

        if not self.left_out:
            # Decode both together: a character may begin in one and end in the other.
            return join(self._first + list(self._last))
        gap = f"\n[{self.left_out} bytes of output left out; write large results to a file]\n"
        return join(self._first) + gap + join(self._last)


def _append(chunks, stream, data):
    """Appends data to the last chunk if it is of the same stream and not full, or adds a chunk."""
    if chunks and chunks[-1][0] == stream and len(chunks[-1][1]) < FULL_CHUNK_BYTES:
        chunks[-1][1].extend(data)
    else:
        chunks.append((stream, bytearray(data)))


class _OutputFile(io.RawIOBase):
    """The raw file of stdout or stderr."""

    def __init__(self, output, stream):
        self._output = output
        self._stream = stream
        self.name = "<stdout>" if stream == STDOUT else "<stderr>"
        self.mode = "wb"

    def writable(self):
        return True

    def fileno(self):
        return self._stream

    def write(self, data):
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        if self._stream == STDERR:
            # Keep the order: stdout may have older output in its buffer.
            flush(sys.stdout)
        self._output.add(self._stream, data)
        return len(data)


class _InputFile(io.RawIOBase):
    """A raw file of stdin. All of them read from the same source."""

    name = "<stdin>"
    mode = "rb"

    def __init__(self, source):
        self._source = source

    def readable(self):
        return True

    def fileno(self):
        return STDIN

    def readinto(self, buffer):
        self._checkClosed()
        return self._source.readinto(buffer)


def flush(file):
    try:
        file.flush()
    except Exception:
        # The script has closed or replaced it, or its own code fails.
        pass


class Streams:
    """Replaces the interpreter's streams with a script's."""

    # The streams of the running script, or None.
    current = None

    def __init__(self, stdin):
        Streams.current = self
        self.output = Output()
        self._stdin = io.BytesIO(stdin)
        sys.stdin = sys.__stdin__ = self.reader()
        sys.stdout = sys.__stdout__ = self.writer(STDOUT)
        sys.stderr = sys.__stderr__ = self.writer(STDERR)

    def reader(self):
        return io.TextIOWrapper(io.BufferedReader(_InputFile(self._stdin)), encoding="utf-8")

    def writer(self, stream):
        raw = _OutputFile(self.output, stream)
        if stream == STDOUT:
            return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
        buffer = io.BufferedWriter(raw)
        return io.TextIOWrapper(
            buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )

    def restore(self):
        """Flushes the streams with which the script replaced its own, and drops them."""
        self.flush()
        sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__

    def flush(self):
        for file in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__):
            flush(file)

    def read(self, original, fd, size, /):
        return self._stdin.read(size) if fd == STDIN and size >= 0 else original(fd, size)

    def readinto(self, original, fd, buffer, /):
        return self._stdin.readinto(buffer) if fd == STDIN else original(fd, buffer)

    def write(self, original, fd, data, /):
        if fd not in (STDOUT, STDERR):
            return original(fd, data)
        if fd == STDERR:
            flush(sys.stdout)
        self.output.add(fd, data)
        return len(data)

    def open(self, original, file, mode="r", *arguments, **named):
        stream = _STREAMS.get(file) if type(file) in (int, str) else None
        if stream is None:
            return original(file, mode, *arguments, **named)
        names = ("buffering", "encoding", "errors", "newline")
        named = dict(zip(names, arguments)) | named
        raw = self.raw(stream, mode)
        if named.get("buffering") == 0:
            if "b" not in mode:
                raise ValueError("can't have unbuffered text I/O")
            return raw
        buffer = io.BufferedReader(raw) if raw.readable() else io.BufferedWriter(raw)
        if "b" in mode:
            return buffer
        return io.TextIOWrapper(
            buffer,
            encoding=named.get("encoding") or "utf-8",
            errors=named.get("errors"),
            newline=named.get("newline"),
            line_buffering=True,
        )

    def raw(self, stream, mode):
        """Returns a raw file of a stream."""
        if stream == _NULL:
            return _OutputFile(Output(), STDOUT) if set(mode) & set("wax") else _InputFile(io.BytesIO())
        return _InputFile(self._stdin) if stream == STDIN else _OutputFile(self.output, stream)


class _FileType(type):
    """Makes `io.FileIO` return the raw files of the streams. Its instances are those of the original, which
    `open` makes."""

    def __call__(cls, file, mode="r", *arguments, **named):
        if cls is FileIO and Streams.current and type(file) is int and file in _STREAMS:
            return Streams.current.raw(file, mode)
        return super().__call__(file, mode, *arguments, **named)

    def __instancecheck__(cls, instance):
        return type.__instancecheck__(_io.FileIO if cls is FileIO else cls, instance)


class FileIO(_io.FileIO, metaclass=_FileType):
    """Replaces `io.FileIO`."""


_NULL = 3
_STREAMS = {
    0: STDIN, 1: STDOUT, 2: STDERR, "/dev/stdin": STDIN, "/dev/stdout": STDOUT, "/dev/stderr": STDERR,
    "/dev/null": _NULL,
}


def replace():
    """Redirects `os.read`, `os.write`, `io.FileIO` and `open` to the script's streams, for the descriptors 0 to 2,
    and for `open` also their paths in /dev."""
    os.read = _redirected(os.read, Streams.read)
    os.readinto = _redirected(os.readinto, Streams.readinto)
    os.write = _redirected(os.write, Streams.write)
    io.FileIO = FileIO
    io.open = builtins.open = _redirected(io.open, Streams.open)


def _redirected(original, method):
    """Returns a function that calls `method` of the running script's streams, or `original` at the build."""
    def call(*arguments, **named):
        if Streams.current is None:
            return original(*arguments, **named)
        return method(Streams.current, original, *arguments, **named)

    call.__name__ = call.__qualname__ = original.__name__
    return call
