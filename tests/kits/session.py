"""A client of `skillhost serve` on standard input and output, a line at a time."""
import json
import subprocess
import threading

import program

# Longest that one answer may take: a component may be compiled first.
LONGEST = 300


class Session:
    """A server in a folder, from the handshake to its end."""

    def __init__(self, folder, *arguments):
        self.server = subprocess.Popen([program.SKILLHOST, "serve", *arguments], cwd=folder,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       encoding="utf-8")
        self.asked = 0
        hello = self.ask("initialize", protocolVersion="2025-06-18", capabilities={},
                         clientInfo={"name": "kits", "version": "1"})
        assert hello["serverInfo"]["name"] == "skillhost", hello
        self.send(method="notifications/initialized")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stdin.close()
        ended = self.server.wait(LONGEST)
        self.server.stdout.close()
        assert ended == 0, "`skillhost serve` ended with %d" % ended

    def send(self, **message):
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.server.stdin.flush()

    def ask(self, method, **params):
        """What the server answers; its notifications are passed over."""
        self.asked += 1
        self.send(id=self.asked, method=method, params=params)
        too_long = threading.Timer(LONGEST, self.server.kill)
        too_long.start()
        try:
            for line in self.server.stdout:
                answer = json.loads(line)
                if answer.get("id") == self.asked:
                    assert "result" in answer, answer
                    return answer["result"]
        finally:
            too_long.cancel()
        raise AssertionError("`skillhost serve` did not answer `%s`" % method)

    def call(self, tool, arguments):
        """What a tool answers: the text, and whether that is a failure."""
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        (content,) = answer["content"]
        return content["text"], answer.get("isError", False)
