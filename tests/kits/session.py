"""A client of `skillhost serve` on standard input and output, one line at a time."""
import json
import subprocess
import threading

import program

# The time limit of one answer, in seconds: a component may be compiled first.
TIME_LIMIT = 300


class Session:
    """A server in a folder, from the handshake to its end."""

    def __init__(self, folder, *arguments):
        self.server = subprocess.Popen([program.SKILLHOST, "serve", *arguments], cwd=folder,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       encoding="utf-8")
        self.requests = 0
        hello = self.ask("initialize", protocolVersion="2025-06-18", capabilities={},
                         clientInfo={"name": "kits", "version": "1"})
        assert hello["serverInfo"]["name"] == "skillhost", hello
        self.send(method="notifications/initialized")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stdin.close()
        code = self.server.wait(TIME_LIMIT)
        self.server.stdout.close()
        assert code == 0, "`skillhost serve` exited with %d" % code

    def send(self, **message):
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.server.stdin.flush()

    def ask(self, method, **params):
        """Returns the server's answer, and skips its notifications."""
        self.requests += 1
        self.send(id=self.requests, method=method, params=params)
        timer = threading.Timer(TIME_LIMIT, self.server.kill)
        timer.start()
        try:
            for line in self.server.stdout:
                answer = json.loads(line)
                if answer.get("id") == self.requests:
                    assert "result" in answer, answer
                    return answer["result"]
        finally:
            timer.cancel()
        raise AssertionError("`skillhost serve` did not answer `%s`" % method)

    def call(self, tool, arguments):
        """Returns a tool's text, and whether it is a failure."""
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        # Help may stand beside a failure.
        text, *_help = answer["content"]
        return text["text"], answer.get("isError", False)
