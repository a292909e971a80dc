"""The MCP Inspector's command line, which reads the documented configuration itself. Each run sends
one request and ends with the answer, so over stdio each run starts the program. Therefore a run
gets no notifications, and the next run lists an added skill. terminal.py checks how the Inspector
shows changes. A run cannot cancel its call either: when the run is killed, its connection or pipes
close, which stops the call."""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import time

import serving

GONE = 0.1
CANCELS = 3
SKILL = {"skill_name": "calculator"}
URI = "skill://calculator/SKILL.md"


def command(mode, configuration, era):
    """One of the Inspector's clients, with a configuration."""
    package = serving.NODE_MODULES / "@modelcontextprotocol/inspector"
    manifest = json.loads((package / "package.json").read_text())
    program = package / manifest["bin"]["mcp-inspector"]
    return [serving.NODE, str(program), mode, "--config", str(configuration),
            "--protocol-era", era]


class Inspector:
    """The command line with a configuration, started in the program's folder."""

    def __init__(self, configuration, where, era):
        self.where = where
        self.command = command("--cli", configuration, era) + [
            "--server", "skillhost", "--format", "json", "--quiet"]

    def start(self, *words):
        return subprocess.Popen(self.command + list(words), cwd=self.where.folder,
                                env=serving.environment(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, encoding="utf-8")

    def ask(self, *words):
        process = self.start(*words)
        out, errors = process.communicate(timeout=serving.PATIENCE)
        return process.returncode, out, errors

    def result(self, *words):
        code, out, errors = self.ask(*words)
        assert code == 0, (words, code, out[:500], errors[-500:])
        return json.loads(out)["result"]

    def call(self, name, arguments):
        return ["--method", "tools/call", "--tool-name", name,
                "--tool-args-json", json.dumps(arguments)]


def offered(inspector):
    tools = inspector.result("--method", "tools/list")["tools"]
    [skills] = [tool["inputSchema"]["properties"]["skill_name"]["enum"]
                for tool in tools if tool["name"] == "read_skill"]
    return [tool["name"] for tool in tools], skills


def check(inspector, where):
    names, skills = offered(inspector)
    five = {"read_file_in_skill", "get_skill", "read_skill_file", "read_skill", "list_skills"}
    assert five <= set(names) and "added" not in skills, (names, skills)
    for name, arguments, seen in [
        ("read_file_in_skill", dict(SKILL, file_path="examples/basic.py"), "def add"),
        ("get_skill", SKILL, '"documentation"'),
        ("read_skill_file", dict(SKILL, path="examples/basic.py", limit=2), "def add"),
        ("read_skill", SKILL, "# Calculator"),
        ("list_skills", {}, '"calculator"'),
    ]:
        result = inspector.result(*inspector.call(name, arguments))
        assert not result.get("isError"), (name, result)
        assert seen in result["content"][0]["text"], (name, result)
    result = inspector.result("--method", "resources/read", "--uri", URI)
    document = (where.skills / "calculator/SKILL.md").read_text()
    assert result["contents"][0]["text"] == document, result
    errors(inspector)
    late = ", ".join("%.0f" % (one * 1000) for one in cancellation(inspector, where))
    did = "listed %d tools, called five, read a resource, saw errors, listed a new skill, " \
        "was ended in a call (%s ms)" % (len(names), late)
    where.add_skill()
    # A running server needs a moment to notice it.
    deadline = time.monotonic() + serving.PATIENCE
    while "added" not in offered(inspector)[1]:
        assert time.monotonic() < deadline, "the skill that was added is not listed"
    return did


def errors(inspector):
    outside = dict(SKILL, file_path="../weather/SKILL.md")
    code, out, said = inspector.ask(*inspector.call("read_file_in_skill", outside))
    assert code != 0 and "Path traversal detected" in out + said, (code, out, said)
    for words in [inspector.call("no_such_tool", {}),
                  ["--method", "resources/read", "--uri", "skill://calculator/no/such"]]:
        code, out, said = inspector.ask(*words)
        assert code != 0, (words, out, said)


def computed(where):
    """Returns the processor seconds of the programs that serve this folder."""
    ticks = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() != where.folder:
                continue
            for task in (process / "task").iterdir():
                if (task / "comm").read_text().strip() == "other-calls":
                    ticks += int((task / "stat").read_text().rsplit(")", 1)[1].split()[11])
        except OSError:
            pass  # It has ended.
    return ticks / os.sysconf("SC_CLK_TCK")


def cancellation(inspector, where):
    """Kills runs during calls that never end by themselves, and waits for the calls' records, which
    are written when the guests have ended."""
    def ended():
        return [record for record in serving.records(where)
                if record["tool"] == "hostile_compute"]

    late = []
    for attempt in range(CANCELS):
        before = computed(where)
        process = inspector.start(*inspector.call("hostile_compute", SKILL))
        try:
            deadline = time.monotonic() + serving.PATIENCE
            while computed(where) < before + 0.2:
                assert time.monotonic() < deadline, "it has not run"
                time.sleep(0.05)
            assert process.poll() is None and len(ended()) == attempt, "it is over"
            process.send_signal(signal.SIGINT)
            stopped = time.time()
            process.communicate(timeout=serving.PATIENCE)
        finally:
            process.kill()
        deadline = time.monotonic() + serving.PATIENCE
        while len(ended()) == attempt:
            assert time.monotonic() < deadline, "the guest is not gone"
            time.sleep(0.005)
        record = ended()[-1]
        assert record["outcome"] == "cancelled", record
        late.append(os.stat(where.audit).st_mtime - stopped)
    return late


def run():
    wrong = []
    for transport, era in [("stdio", "legacy"), ("http", "modern")]:
        with serving.place() as where:
            try:
                if transport == "stdio":
                    configuration = serving.configuration("stdio", where)
                    did = check(Inspector(configuration, where, era), where)
                else:
                    with serving.served(where) as url:
                        configuration = serving.configuration("http", where, url)
                        did = check(Inspector(configuration, where, era), where)
                print("  inspector, %s, %s: %s" % (transport, era, did))
            except (AssertionError, subprocess.SubprocessError, RuntimeError) as error:
                wrong.append("inspector, %s, %s: %s" % (transport, era, error))
    return wrong
