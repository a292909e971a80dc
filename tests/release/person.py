"""A person's machine: an empty home, no Rust on the PATH, and what the person does there."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 300
CALL = ["call", "read_file_in_skill", "skill_name=calculator", "file_path=examples/basic.py"]
SCRIPT = "print(6 * 7)\n"
SCRIPT_CALL = ["call", "run_skill_script", '{"skill_name": "answers", "script": "scripts/a.py"}']
GRANTS = """
[grants."run_skill_script.wasm"]
skills = ["*"]
scripts = ["scripts/**/*.py"]
"""


class Failure(Exception):
    """Something that a person would report."""


class Person:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.home = self.folder / "home"
        self.home.mkdir()
        self.work = self.folder / "work"
        self.work.mkdir()
        shutil.copytree(REPOSITORY / "skills", self.work / "skills")
        self.write("skills/answers/SKILL.md", "---\nname: answers\ndescription: Answers.\n---\n")
        self.write("skills/answers/scripts/a.py", SCRIPT)
        self.write("scripts.toml", 'skills = ["skills"]\n' + GRANTS)
        node = pathlib.Path(shutil.which("node")).resolve().parent
        self.environment = {"HOME": str(self.home), "LANG": "C.UTF-8",
                            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin:%s" % node}
        self.require_no_rust()

    def write(self, path, text):
        path = self.work / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def require_no_rust(self):
        for program in ["cargo", "rustc"]:
            found = shutil.which(program, path=self.environment["PATH"])
            if found:
                raise Failure("`%s` is on the PATH of a person without Rust" % found)

    def run(self, *command, code=0, **more):
        """Runs a command, and returns its output. Fails with it on another exit code."""
        ended = subprocess.run([str(word) for word in command], cwd=self.work,
                               env=self.environment | more, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               encoding="utf-8", timeout=PATIENCE)
        if ended.returncode != code:
            raise Failure("%s: exit code %d instead of %d\n%s%s" % (
                command, ended.returncode, code, ended.stdout, ended.stderr))
        return ended

    def tries(self, *program, limit=10):
        """Makes a first call, and runs a script with the runner of the package. `limit` is the
        time for the first result, in seconds."""
        start = time.monotonic()
        expect(self.run(*program, *CALL).stdout,
               (REPOSITORY / "skills/calculator/examples/basic.py").read_text())
        first = time.monotonic() - start
        start = time.monotonic()
        runners = ["--tools", "runners", "--config", "scripts.toml"]
        expect(self.run(*program, *runners, *SCRIPT_CALL).stdout, "42\n")
        print("first result in %.1f s, first script in %.1f s" % (
            first, time.monotonic() - start), flush=True)
        if first > limit:
            raise Failure("the first result took %.1f s instead of %d" % (first, limit))

    @contextlib.contextmanager
    def server(self, *program, **more):
        """Starts a server on stdin and stdout, and ends it as a client does."""
        process = subprocess.Popen([str(word) for word in program], cwd=self.work,
                                   env=self.environment | more, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, encoding="utf-8")
        try:
            server = Server(process)
            server.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                      "clientInfo": {"name": "person", "version": "1"}})
            server.tell("notifications/initialized")
            yield server
            process.stdin.close()
            if process.wait(PATIENCE) != 0:
                raise Failure("the server ended with exit code %d" % process.returncode)
        finally:
            process.kill()
            process.wait()


class Server:
    def __init__(self, process):
        self.process = process
        self.number = 0

    def tell(self, method, **more):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method} | more) + "\n")
        self.process.stdin.flush()

    def ask(self, method, parameters):
        self.number += 1
        self.tell(method, id=self.number, params=parameters)
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.number:
                if "result" not in message:
                    raise Failure("`%s` was refused: %s" % (method, line))
                return message["result"]
        raise Failure("the server ended before it answered `%s`" % method)

    def call(self, tool, arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["content"][0]["text"]

    def reads(self):
        expect(self.call("read_skill", {"skill_name": "answers"}).strip(), "")

    def runs_script(self):
        """Runs a script, once the runner is loaded."""
        limit = time.monotonic() + PATIENCE
        while not any(tool["name"] == "run_skill_script"
                      for tool in self.ask("tools/list", {})["tools"]):
            if time.monotonic() > limit:
                raise Failure("the runner was not loaded in time")
            time.sleep(0.5)
        arguments = {"skill_name": "answers", "script": "scripts/a.py"}
        expect(self.call("run_skill_script", arguments), "42\n")


def expect(found, wanted):
    if found != wanted:
        raise Failure("expected %r, but got %r" % (wanted, found))


@contextlib.contextmanager
def person():
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        os.chmod(folder, 0o755)
        yield Person(folder)
