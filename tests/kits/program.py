"""Runs `skillhost` as a tool author does."""
import os
import pathlib
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
SKILLHOST = os.environ["SKILLHOST"]
# The time limit of a command, in seconds. It may download a compiler over a slow connection.
TIME_LIMIT = 600


class Result:
    """The exit code and the output of a command."""

    def __init__(self, command, process):
        self.command = command
        self.code = process.returncode
        self.stdout = process.stdout
        self.stderr = process.stderr

    def exits_with(self, code):
        assert self.code == code, "%s exited with %d, not %d\n%s\n%s" % (
            self.command, self.code, code, self.stdout, self.stderr)
        return self

    def prints(self, *texts):
        for text in texts:
            assert text in self.stdout + self.stderr, "%s does not print %r\n%s\n%s" % (
                self.command, text, self.stdout, self.stderr)
        return self

    def prints_not(self, *texts):
        for text in texts:
            assert text not in self.stdout + self.stderr, "%s prints %r\n%s\n%s" % (
                self.command, text, self.stdout, self.stderr)
        return self


def run(folder, *arguments):
    process = subprocess.run([SKILLHOST, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, encoding="utf-8", timeout=TIME_LIMIT, check=False)
    return Result("skillhost " + " ".join(arguments), process)


def shell(folder, script):
    """Runs a block of a page, with the program on the PATH as `skillhost`."""
    environment = dict(os.environ)
    environment["PATH"] = "%s:%s" % (pathlib.Path(SKILLHOST).parent, environment["PATH"])
    process = subprocess.run(["bash", "-euc", script], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, encoding="utf-8", timeout=TIME_LIMIT, check=False,
                          env=environment)
    return Result(script.strip(), process)
