"""The measured processes and their clients: the two programs that time calls in their own
process, and MCP over stdin and stdout by the official SDK or by bare pipes."""
import contextlib
import json
import os
import subprocess
import tempfile
import time

REVISION = "2025-11-25"

# The metadata of each request in the revision without a handshake.
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "compare", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Failed(Exception):
    """An error that ends the comparison. Its text is for the person who started it."""


class Piped:
    """A process that answers each line with a line."""

    def __init__(self, command, env=None):
        self.name = command[0]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, bufsize=1 << 20, env=env)

    def send(self, line):
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.exit_error() from None

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise self.exit_error()
        return line

    def exit_error(self):
        code = self.process.wait()
        self.log.seek(0)
        last = self.log.read().decode("utf-8", "replace").splitlines()[-5:]
        return Failed("\n".join(["`%s` ended with exit code %d" % (self.name, code), *last]))

    def close(self):
        """Ends the process as a client does: closes its stdin, and kills it after ten seconds."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


@contextlib.contextmanager
def on_one_processor():
    """Keeps processes that are started in this context on one processor. On a shared machine,
    one processor can be half as fast again as another."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(usual)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


class TimedProcess(Piped):
    """A process that runs and times calls in itself: `driver/` or `contract.py`."""

    def __init__(self, command):
        super().__init__(command)
        self.tools = int(self.receive())

    def execute(self, **order):
        self.send(json.dumps(order).encode() + b"\n")
        return json.loads(self.receive())

    def calls(self, arguments, **order):
        """Returns a side for `in_turns`."""
        return lambda times: self.execute(
            order="call", arguments=arguments, times=times, **order)["nanoseconds"]

    def answer(self, arguments, **order):
        return self.execute(order="call", arguments=arguments, times=1, **order)["last"]


class Bare(Piped):
    """A server over MCP by bare pipes: only the server and the pipes are timed. Answers are parsed
    after the clock has stopped."""

    def __init__(self, command, env=None, meta=None):
        super().__init__(command, env)
        self.id = 0
        self.meta = {"_meta": meta} if meta else {}
        if meta:
            return
        self.ask("initialize", {"protocolVersion": REVISION, "capabilities": {},
                                "clientInfo": {"name": "compare", "version": "1"}})
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def request(self, method, params):
        self.id += 1
        params = {**params, **self.meta}
        request = {"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}
        return json.dumps(request).encode() + b"\n"

    def next_answer(self):
        """Returns the next answer. Skips notifications."""
        while True:
            line = self.receive()
            if b'"method"' not in line[:200]:
                return line

    def ask(self, method, params):
        self.send(self.request(method, params))
        return self.result(self.next_answer())

    def result(self, line):
        message = json.loads(line)
        if message.get("id") != self.id or "result" not in message:
            raise Failed("`%s` answered %.500r" % (self.name, line))
        return message["result"]

    def call(self, tool, arguments):
        return outcome(self.ask("tools/call", {"name": tool, "arguments": arguments}))

    def read(self, arguments):
        return self.call("read_file_in_skill", arguments)

    def calls(self, arguments):
        def side(times):
            nanoseconds = []
            for _ in range(times):
                params = {"name": "read_file_in_skill", "arguments": arguments}
                request = self.request("tools/call", params)
                start = time.perf_counter_ns()
                self.send(request)
                line = self.next_answer()
                nanoseconds.append(time.perf_counter_ns() - start)
                self.result(line)
            return nanoseconds
        return side


class Session:
    """A server over MCP by the official SDK. Calls are timed in the SDK's own event loop."""

    def __init__(self, portal, client):
        self.portal = portal
        self.client = client

    def read(self, arguments):
        result = self.portal.call(self.client.call_tool, "read_file_in_skill", arguments)
        block = result.content[0]  # Help may follow.
        return bool(result.is_error), block.text

    def calls(self, arguments):
        async def run(times):
            nanoseconds = []
            for _ in range(times):
                start = time.perf_counter_ns()
                await self.client.call_tool("read_file_in_skill", arguments)
                nanoseconds.append(time.perf_counter_ns() - start)
            return nanoseconds
        return lambda times: self.portal.call(run, times)


@contextlib.contextmanager
def sessions(*commands, env=None):
    """Opens sessions of the SDK with these servers, all at once."""
    from anyio.from_thread import start_blocking_portal
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters
    with start_blocking_portal() as portal, contextlib.ExitStack() as open_:
        opened = []
        for command, *args in commands:
            client = Client(StdioServerParameters(command=command, args=args, env=env))
            client = open_.enter_context(portal.wrap_async_context_manager(client))
            opened.append(Session(portal, client))
        yield opened


def outcome(result):
    """Returns the result of a call as a pair: `True` for an error, and the text."""
    block = result["content"][0]  # Help may follow.
    return bool(result.get("isError")), block["text"]


def check_same(what, ours, theirs):
    """Fails unless both sides give the same answer."""
    if ours != theirs:
        raise Failed("%s: the answers differ: %.300r and %.300r" % (what, ours, theirs))
