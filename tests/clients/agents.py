"""Coding agents with the configuration that `skillhost clients add --write` makes. Each agent has
its own home folder and no account, and must start the server from its own configuration. After
`clients remove` the agent must not know the server. `agents/package.json` pins the agents; the
other clients of `host/cli/src/clients/table.rs` are in no registry."""
import json
import os
import pathlib
import select
import subprocess
import time

import serving


class Agent:
    """A client's program, and what it prints about its servers."""

    def __init__(self, client, program, words, started):
        self.client = client
        self.program = program
        self.words = words
        # The text that only a started server causes, or a function that asks the program.
        self.started = started


def codex_tools(command, environment, folder):
    """Returns the tools of the servers that Codex started. `codex mcp list` starts no servers."""
    process = subprocess.Popen(command + ["app-server"], env=environment, cwd=folder,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    try:
        for message in [
            {"id": 1, "method": "initialize",
             "params": {"clientInfo": {"name": "tests", "title": "tests", "version": "1"}}},
            {"method": "initialized"},
            {"id": 2, "method": "mcpServerStatus/list", "params": {}},
        ]:
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        read = b""
        deadline = time.monotonic() + serving.PATIENCE
        while time.monotonic() < deadline:
            ready, _, _ = select.select([process.stdout], [], [], 1)
            if ready:
                part = os.read(process.stdout.fileno(), 65536)
                if not part:
                    break
                read += part
                for line in read.split(b"\n")[:-1]:
                    message = json.loads(line)
                    if message.get("id") == 2:
                        return {server["name"]: sorted(server["tools"])
                                for server in message["result"]["data"]}
        raise AssertionError("Codex did not list its servers: %s" % read[-500:])
    finally:
        process.kill()
        process.wait()


def agents(modules):
    claude = modules / "@anthropic-ai/claude-code-linux-x64/claude"
    [codex] = (modules / "@openai/codex-linux-x64/vendor").glob("*/bin/codex")
    opencode = modules / "opencode-linux-x64/bin/opencode"
    gemini = modules / "@google/gemini-cli/bundle/gemini.js"
    return [
        Agent("claude-code", [str(claude)], ["mcp", "list"], "Connected"),
        Agent("codex", [str(codex)], ["mcp", "list"], codex_tools),
        Agent("gemini-cli", [serving.NODE, str(gemini)], ["mcp", "list"], "Connected"),
        Agent("opencode", [str(opencode)], ["mcp", "list"], "connected"),
    ]


def check(agent, where):
    home = where.folder / "home"
    project = where.folder / "project"
    for folder in [home, project]:
        folder.mkdir()
    environment = {
        "HOME": str(home), "PATH": os.environ["PATH"],
        "SKILLHOST_CACHE": str(where.folder / "cache"),
        # Gemini CLI starts servers only in a folder that is trusted.
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }

    def run(command):
        done = subprocess.run(command, env=environment, cwd=project, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8",
                              timeout=serving.PATIENCE)
        assert done.returncode == 0, (command, done.returncode, done.stdout[-800:])
        return done.stdout

    # A client does not wait until components are compiled.
    run([serving.SKILLHOST, "warm", "--skills", str(where.skills)])
    added = run([serving.SKILLHOST, "clients", "add", agent.client, "--write", "--",
                 "--skills", str(where.skills)])
    assert added.startswith("added `skillhost` to "), added
    listed = run(agent.program + agent.words)
    assert "skillhost" in listed, listed
    if callable(agent.started):
        tools = agent.started(agent.program, environment, project)
        assert "read_skill_file" in tools["skillhost"], tools
    else:
        assert agent.started in listed and "Disconnected" not in listed, listed
    # The client may have written its own state into the file meanwhile.
    run([serving.SKILLHOST, "clients", "remove", agent.client])
    listed = run(agent.program + agent.words)
    assert "skillhost" not in listed.replace(str(where.folder), ""), listed


def run():
    installed = subprocess.run([str(serving.REPOSITORY / "tests/clients/node/install"), "clients/agents"],
                               check=True, stdout=subprocess.PIPE, encoding="utf-8")
    modules = pathlib.Path(installed.stdout.strip()) / "node_modules"
    wrong = []
    for agent in agents(modules):
        start = time.monotonic()
        with serving.place() as where:
            try:
                check(agent, where)
                seconds = time.monotonic() - start
                print("  %s started the server from its file (%.0f s)" % (agent.client, seconds))
            except (AssertionError, subprocess.SubprocessError, KeyError) as error:
                wrong.append("%s: %s" % (agent.client, error))
    return wrong
