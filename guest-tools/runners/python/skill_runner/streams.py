"""stdin, stdout and stderr of a script, in memory. What is written is kept in its order and apart.
What the text is made of for a model is in `execute`."""

import builtins
import collections
import io
import os
import sys

# Bytes of stdout and stderr that are kept: so many from the beginning, so many from the end.
# Guards against: a script whose output fills the memory of the call, or of the model.
FIRST = 192 << 10
LAST = 64 << 10
PART = 4 << 10

STDOUT, STDERR = 1, 2


class Output:
    """What a script has written, to both streams."""

    def __init__(self):
        self._first = []
        self._last = collections.deque()
        self._room = FIRST
        self._kept_last = 0
        self.left_out = 0

    def add(self, stream, data):
        data = bytes(data)
        if self._room > 0:
            _append(self._first, stream, data[: self._room])
            data, self._room = data[self._room :], self._room - len(data)
        if not data:
            return
        self.left_out += max(0, len(data) - LAST)
        data = data[-LAST:]
        _append(self._last, stream, data)
        self._kept_last += len(data)
        while self._kept_last > LAST:
            stream, oldest = self._last[0]
            drop = min(len(oldest), self._kept_last - LAST)
            del oldest[:drop]
            self._kept_last -= drop
            self.left_out += drop
            if not oldest:
                self._last.popleft()

    def text(self, stream=None):
        """What was written to a stream, or to both as they came."""
        def join(parts):
            found = b"".join(data for written, data in parts if stream in (None, written))
            return found.decode("utf-8", "replace")

        if not self.left_out:
            # In one piece: a character may be cut in two where the beginning ends.
            return join(self._first + list(self._last))
        gap = f"\n[{self.left_out} bytes of output left out; write large results to a file]\n"
        return join(self._first) + gap + join(self._last)


def _append(parts, stream, data):
    """Adds to the last part, if it is of the same stream. Guards against: a part a byte."""
    if parts and parts[-1][0] == stream and len(parts[-1][1]) < PART:
        parts[-1][1].extend(data)
    else:
        parts.append((stream, bytearray(data)))


class _Written(io.RawIOBase):
    """The raw file below stdout or stderr."""

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
            # stdout has a buffer, and was written first.
            flush(sys.stdout)
        self._output.add(self._stream, data)
        return len(data)


class _Read(io.BytesIO):
    """The bytes below stdin."""

    name = "<stdin>"
    mode = "rb"

    def fileno(self):
        return 0


def flush(file):
    try:
        file.flush()
    except (AttributeError, OSError, ValueError):
        # It is None, closed, or no file at all.
        pass


class Streams:
    """Puts a script's streams in the place of the interpreter's."""

    # Those of the script that runs.
    current = None

    def __init__(self, stdin):
        Streams.current = self
        self.output = Output()
        self._stdin = stdin
        sys.stdin = sys.__stdin__ = self.reader()
        sys.stdout = sys.__stdout__ = self.writer(STDOUT)
        sys.stderr = sys.__stderr__ = self.writer(STDERR)

    def reader(self):
        return io.TextIOWrapper(_Read(self._stdin), encoding="utf-8")

    def writer(self, stream):
        raw = _Written(self.output, stream)
        if stream == STDOUT:
            return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
        buffer = io.BufferedWriter(raw)
        return io.TextIOWrapper(
            buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )

    def flush(self):
        for file in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__):
            flush(file)

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
        if stream == 0:
            raw = _Read(self._stdin)
        elif stream == _NULL:
            raw = _Written(Output(), STDOUT) if set(mode) & set("wax") else _Read(b"")
        else:
            raw = _Written(self.output, stream)
        if "b" in mode:
            return raw
        buffer = raw if isinstance(raw, _Read) else io.BufferedWriter(raw)
        return io.TextIOWrapper(
            buffer,
            encoding=named.get("encoding") or "utf-8",
            errors=named.get("errors"),
            newline=named.get("newline"),
            line_buffering=True,
        )


_NULL = 3
_STREAMS = {
    0: 0, 1: STDOUT, 2: STDERR, "/dev/stdin": 0, "/dev/stdout": STDOUT, "/dev/stderr": STDERR,
    "/dev/null": _NULL,
}


def replace():
    """Leads writes to the descriptors 1 and 2 to the script's streams, and what opens them by number or
    name."""
    os.write = _led(os.write, Streams.write)
    io.open = builtins.open = _led(io.open, Streams.open)


def _led(original, method):
    def call(*arguments, **named):
        if Streams.current is None:
            return original(*arguments, **named)
        return method(Streams.current, original, *arguments, **named)

    call.__name__ = call.__qualname__ = original.__name__
    return call
