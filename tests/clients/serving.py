"""The program under test: its folders, its processes, and the configuration for clients in
docs/guides/agents.md."""
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SKILLHOST = os.environ["SKILLHOST"]
NODE = os.environ["NODE"]
NODE_MODULES = pathlib.Path(os.environ["NODE_MODULES"])
TOKEN = "a-token-that-only-these-tests-know"
PATIENCE = 60

# The configuration for the documented command.
CONFIGURATION = """
tools = ["tools"]
audit_file = "audit.jsonl"
[grants."hostile.wasm"]
skills = ["*"]
"""


class Place:
    """A folder for the program: skills, tools, an audit log."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.skills = self.folder / "skills"
        self.audit = self.folder / "audit.jsonl"
        shutil.copytree(REPOSITORY / "skills", self.skills)
        (self.folder / "tools").mkdir()
        shutil.copy(REPOSITORY / "tests/guests/dist/hostile.wasm", self.folder / "tools")
        (self.folder / "skillhost.toml").write_text(CONFIGURATION)
        self.audit.touch(mode=0o600)
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN)

    def add_skill(self):
        added = self.skills / "added"
        added.mkdir()
        (added / "SKILL.md").write_text("---\nname: added\ndescription: New.\n---\nRead me.\n")


@contextlib.contextmanager
def place():
    with tempfile.TemporaryDirectory(prefix="skillhost-clients-") as folder:
        yield Place(folder)


@contextlib.contextmanager
def listening(command, cwd=None):
    """Runs a server that prints its URL, and ends it as an operator would. Prints the server's log if
    something fails."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=log,
                                   encoding="utf-8")
        try:
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            url = process.stdout.readline().strip() if ready else ""
            if not url.startswith("http://"):
                raise RuntimeError("`%s` printed no URL" % command[0])
            yield url
            process.terminate()
            code = process.wait(PATIENCE)
            if code != 0:
                raise RuntimeError("`%s` ended with exit code %d" % (command[0], code))
        except BaseException:
            log.seek(0)
            print("".join(log.readlines()[-40:]), file=sys.stderr)
            raise
        finally:
            process.kill()
            process.wait()


def served(where):
    """Runs the program as a server over HTTP, with the token."""
    command = [SKILLHOST, "serve", "--http", "127.0.0.1:0", "--token-file", "token",
               "--config", "skillhost.toml"]
    return listening(command, where.folder)


def documented(transport):
    """Returns the block of docs/guides/agents.md for a transport."""
    page = (REPOSITORY / "docs/guides/agents.md").read_text()
    return re.search(r"```json %s\n(.*?)\n```" % transport, page, re.DOTALL).group(1)


def configuration(transport, where, url=None):
    """Returns the documented configuration with a user's values."""
    text = documented(transport)
    own = {
        "stdio": [("/home/me/skills", str(where.skills))],
        "http": [("http://127.0.0.1:8080/mcp", url), ("THE-TOKEN", TOKEN)],
    }[transport]
    for shown, real in own:
        if text.count(shown) != 1:
            raise RuntimeError("docs/guides/agents.md: `%s` does not have `%s`" % (transport, shown))
        text = text.replace(shown, real)
    if transport == "stdio":
        settings = json.loads(text)
        settings["mcpServers"]["skillhost"]["args"] += ["--config",
                                                        str(where.folder / "skillhost.toml")]
        text = json.dumps(settings)
    file = where.folder / ("%s.json" % transport)
    file.write_text(text)
    return file


def environment():
    """Returns the environment in which the command `skillhost` is found."""
    path = os.pathsep.join([str(pathlib.Path(SKILLHOST).parent), os.environ["PATH"]])
    return dict(os.environ, PATH=path)


def records(where):
    # The last part has no line feed: it is empty, or an incomplete record.
    return [json.loads(line) for line in where.audit.read_text().split("\n")[:-1]]
