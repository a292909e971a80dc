"""The Python SDK as a client that makes many calls and continues after errors. Arguments: the
server's URL, the token, the era of the protocol, the number of the first call, the number of calls,
and the file for the results."""
import asyncio
import collections
import json
import pathlib
import sys

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

SESSIONS = 8
# A call is lost if it has no answer and no error by then.
PATIENCE = 45
FILES = 500


def trace(number):
    return "%032x" % (number + 1)


def asked(number):
    """Returns the file that a call reads, and what its answer must be."""
    if number % 20 == 7:
        return "none-%d.txt" % number, None
    file = number * 7919 % FILES
    return "file-%d.txt" % file, "file %d of the fleet\n" % file * (file % 60 + 1)


class Results:
    def __init__(self):
        self.answered, self.failed, self.wrong, self.lost = [], [], [], []
        self.errors = collections.Counter()
        self.connections_failed = 0

    def fail(self, number, error):
        if isinstance(error, BaseExceptionGroup):
            return self.fail(number, error.exceptions[0])
        if isinstance(error, TimeoutError):
            self.lost.append(trace(number))
        self.failed.append(trace(number))
        self.errors["python: %s: %.90s" % (type(error).__name__, error)] += 1


async def call(client, number, results):
    path, expected = asked(number)
    with anyio.fail_after(PATIENCE):
        result = await client.call_tool(
            "read_file_in_skill", {"skill_name": "fleet", "file_path": path},
            meta={"traceparent": "00-%s-00f067aa0ba902b7-01" % trace(number)})
    text = result.content[0].text
    is_right = (result.is_error and text.startswith("ERROR:") and path in text
                if expected is None else not result.is_error and text == expected)
    if not is_right:
        results.wrong.append("%s: %.200s" % (path, text))
    results.answered.append(trace(number))


async def session(numbers, results):
    """Makes calls on one session, and opens another one after an error."""
    waiting = list(reversed(numbers))
    while waiting:
        number = None
        try:
            headers = {"Authorization": "Bearer " + TOKEN}
            http = httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(2 * PATIENCE))
            async with http, Client(streamable_http_client(URL, http_client=http),
                                    mode="auto" if MODERN else "legacy") as client:
                while waiting:
                    number = waiting.pop()
                    await call(client, number, results)
                    number = None
        except Exception as error:
            if number is None:
                results.connections_failed += 1
                await anyio.sleep(0.05)
            else:
                results.fail(number, error)


async def main(first, count):
    results = Results()
    numbers = range(first, first + count)
    async with anyio.create_task_group() as sessions:
        for at in range(SESSIONS):
            sessions.start_soon(session, numbers[at::SESSIONS], results)
    return results


if __name__ == "__main__":
    URL, TOKEN = sys.argv[1:3]
    MODERN = sys.argv[3] == "modern"
    found = asyncio.run(main(int(sys.argv[4]), int(sys.argv[5])))
    pathlib.Path(sys.argv[6]).write_text(json.dumps(vars(found)))
