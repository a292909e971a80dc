"""The Python SDK as a client: does everything that an agent does, and exits with 0 if everything
works. Arguments: a configuration file for clients, the program's folder, and the era of
the protocol."""
import asyncio
import json
import pathlib
import statistics
import sys
import time

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

PATIENCE = 60
GONE = 0.1
CANCELS = 3
RUNNING = 250_000


def transport(server, folder, headers=None):
    if "command" in server:
        return StdioServerParameters(command=server["command"], args=server["args"], cwd=folder)
    headers = server["headers"] if headers is None else headers
    timeout = httpx2.Timeout(PATIENCE)
    client = httpx2.AsyncClient(headers=headers, timeout=timeout)
    return streamable_http_client(server["url"], http_client=client)


def text(result):
    [block] = result.content
    return block.text


async def list_all(client):
    tools, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools


def skills_offered(tools):
    [tool] = [tool for tool in tools if tool.name == "read_skill"]
    return tool.input_schema["properties"]["skill_name"]["enum"]


async def calls(client):
    skill = {"skill_name": "calculator"}
    file = dict(skill, file_path="examples/basic.py")
    for name, arguments, seen in [
        ("read_file_in_skill", file, "def add"),
        ("get_skill", skill, '"documentation"'),
        ("read_skill_file", dict(skill, path="examples/basic.py", limit=2), "def add"),
        ("read_skill", skill, "# Calculator"),
        ("list_skills", {}, '"calculator"'),
        ("list_files_in_skill", skill, "examples/basic.py"),
    ]:
        result = await client.call_tool(name, arguments)
        assert not result.is_error, name
        assert seen in text(result), (name, text(result))
    result = await client.call_tool("list_skills", {})
    assert json.loads(text(result)) == result.structured_content


async def errors(client):
    outside = {"skill_name": "calculator", "file_path": "../weather/SKILL.md"}
    result = await client.call_tool("read_file_in_skill", outside)
    [words, help] = result.content
    assert result.is_error and words.text.startswith("ERROR: Path traversal detected")
    # The host's help is a block of its own.
    assert 'skill_name "weather" and file_path "SKILL.md"' in help.text, help
    for call, code in [
        (client.call_tool("no_such_tool", {}), -32602),
        (client.read_resource("skill://calculator/no/such"), -32602 if MODERN else -32002),
    ]:
        try:
            await call
        except MCPError as error:
            assert error.error.code == code, error
        else:
            raise AssertionError("no error")


async def resources(client):
    result = await client.read_resource("skill://calculator/SKILL.md")
    [content] = result.contents
    file = pathlib.Path("skills/calculator/SKILL.md")
    assert content.text == (FOLDER / file).read_text()
    listed = await client.list_resources()
    assert any(str(resource.uri) == "skill://calculator/SKILL.md"
               for resource in listed.resources)


def ended():
    # The last part has no line feed: it is empty, or an incomplete record.
    lines = (FOLDER / "audit.jsonl").read_text().split("\n")[:-1]
    found = [json.loads(line) for line in lines]
    return [record for record in found if record["tool"] == "hostile_compute"]


async def cancellation(client):
    """Cancels calls that never end by themselves, and waits for their records, which are written
    when the guests have ended."""
    late = []
    for attempt in range(len(ended()), len(ended()) + CANCELS):
        async with anyio.create_task_group() as calling:
            calling.start_soon(client.call_tool, "hostile_compute",
                               {"skill_name": "calculator"})
            await anyio.sleep(0.5)
            assert len(ended()) == attempt, "it has not run"
            calling.cancel_scope.cancel()
            cancelled = time.time()
        deadline = time.monotonic() + PATIENCE
        while len(ended()) == attempt:
            assert time.monotonic() < deadline, "the guest is not gone"
            await anyio.sleep(0.005)
        record = ended()[-1]
        assert record["outcome"] == "cancelled" and record["duration_us"] > RUNNING, record
        late.append((FOLDER / "audit.jsonl").stat().st_mtime - cancelled)
    assert statistics.median(late) < GONE, late
    # The session still works.
    assert not (await client.call_tool("list_skills", {})).is_error
    return late


def add_skill():
    folder = FOLDER / "skills" / "added"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: added\ndescription: New.\n---\nRead me.\n")


async def changes(client, told):
    """Adds a skill, and checks that the client is notified and lists the skill."""
    assert "added" not in skills_offered(await list_all(client))
    if MODERN:
        async with client.listen(tools_list_changed=True) as subscription:
            add_skill()
            with anyio.fail_after(PATIENCE):
                event = await anext(aiter(subscription))
            assert type(event).__name__ == "ToolsListChanged", event
    else:
        add_skill()
        with anyio.fail_after(PATIENCE):
            await told.wait()
    assert "added" in skills_offered(await list_all(client))
    result = await client.call_tool("read_skill", {"skill_name": "added"})
    assert text(result).strip() == "Read me."


async def refused(server):
    """Checks that the server refuses a missing and a wrong token."""
    for headers in [{}, {"Authorization": "Bearer another-token-than-that-one"}]:
        assert httpx2.post(server["url"], headers=headers, json={}).status_code == 401
        try:
            async with Client(transport(server, FOLDER, headers)):
                entered = True
        except Exception:
            entered = False
        assert not entered


async def main():
    server = json.loads(pathlib.Path(sys.argv[1]).read_text())["mcpServers"]["skillhost"]
    told = anyio.Event()

    async def hear(message):
        if type(message).__name__ == "ToolListChangedNotification":
            told.set()

    async with Client(transport(server, FOLDER), mode="auto" if MODERN else "legacy",
                      message_handler=hear) as client:
        expected = "2026-07-28" if MODERN else "2025-11-25"
        assert client.protocol_version == expected, client.protocol_version
        names = [tool.name for tool in await list_all(client)]
        assert names[:1] and len(names) == len(set(names))
        five = {"read_file_in_skill", "get_skill", "read_skill_file", "read_skill", "list_skills"}
        assert five <= set(names), names
        await calls(client)
        await errors(client)
        await resources(client)
        late = await cancellation(client)
        did = "listed %d tools, called six, read a resource, saw errors, cancelled (%s ms)" % (
            len(names), ", ".join("%.0f" % (seconds * 1000) for seconds in late))
        await changes(client, told)
        did += ", was told of a new skill"
    if "url" in server:
        await refused(server)
        did += ", was refused without the token"
    print("  python, %s, %s: %s" % ("HTTP" if "url" in server else "stdio", expected, did))


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv[2])
    MODERN = sys.argv[3] == "modern"
    asyncio.run(main())
