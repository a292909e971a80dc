"""Running the program as a tool's author does."""
import os
import pathlib
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
SKILLHOST = os.environ["SKILLHOST"]
# Longest that one command may take: a compiler's download on a slow line.
LONGEST = 600


class Seen:
    """What a command left behind."""

    def __init__(self, command, done):
        self.command = command
        self.code = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr

    def ended(self, code):
        assert self.code == code, "%s ended with %d, not %d\n%s\n%s" % (
            self.command, self.code, code, self.stdout, self.stderr)
        return self

    def says(self, *texts):
        for text in texts:
            assert text in self.stdout + self.stderr, "%s does not say %r\n%s\n%s" % (
                self.command, text, self.stdout, self.stderr)
        return self

    def says_not(self, *texts):
        for text in texts:
            assert text not in self.stdout + self.stderr, "%s says %r\n%s\n%s" % (
                self.command, text, self.stdout, self.stderr)
        return self


def run(folder, *arguments):
    done = subprocess.run([SKILLHOST, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, encoding="utf-8", timeout=LONGEST, check=False)
    return Seen("skillhost " + " ".join(arguments), done)


def shell(folder, script):
    """Runs a block of a page, with the program on the PATH as `skillhost`."""
    environment = dict(os.environ)
    environment["PATH"] = "%s:%s" % (pathlib.Path(SKILLHOST).parent, environment["PATH"])
    done = subprocess.run(["bash", "-euc", script], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, encoding="utf-8", timeout=LONGEST, check=False,
                          env=environment)
    return Seen(script.strip(), done)
