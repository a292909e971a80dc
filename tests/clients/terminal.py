"""The MCP Inspector's terminal client, which stays connected, in a pseudo-terminal. Checks what the
Inspector's command line cannot show: after a skill is added, the client is notified, and the list of
resources on the screen grows without a key being pressed."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import inspector
import programs
import serving

# So high that no list needs to scroll.
ROWS, COLUMNS = 200, 200
FRAME = "\x1b[H"
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TOLD = ["notifications/tools/list_changed", "notifications/resources/list_changed"]
ESCAPE = "\x1b"


class Screen:
    """A program in a terminal of its own. It draws the whole screen each time: the screen
    is what it has written since the cursor was last in the corner."""

    def __init__(self, command, **options):
        self.terminal, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side,
                                        start_new_session=True, **options)
        os.close(side)
        self.written = b""

    def shows(self):
        text = self.written.decode("utf-8", "replace").rsplit(FRAME, 1)[-1]
        return STYLE.sub("", text)

    def read(self, deadline, what):
        """Reads more output. Returns false at its end."""
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
            raise AssertionError("no %s on the screen:\n%s" % (what, self.shows()))
        try:
            piece = os.read(self.terminal, 1 << 16)
        except OSError:  # Linux reports this when the other side is closed.
            piece = b""
        self.written += piece
        return bool(piece)

    def see(self, pattern):
        deadline = time.monotonic() + serving.PATIENCE
        while not (seen := re.search(pattern, self.shows())):
            assert self.read(deadline, pattern), "it ended:\n%s" % self.shows()
        return seen

    def press(self, key):
        os.write(self.terminal, key.encode())

    def leave(self):
        """Quits as a user does: the program ends by itself, without an error."""
        self.press(ESCAPE)
        deadline = time.monotonic() + serving.PATIENCE
        while self.read(deadline, "end"):
            pass
        assert self.process.wait(serving.PATIENCE) == 0, self.process.returncode

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


def refreshing(configuration):
    """Turns on the Inspector's setting that fetches a list again after a notification."""
    settings = json.loads(configuration.read_text())
    settings["mcpServers"]["skillhost"]["autoRefreshOnListChanged"] = True
    configuration.write_text(json.dumps(settings))


def check(configuration, where, era):
    refreshing(configuration)
    command = inspector.command("--tui", configuration, era)
    # The client keeps files in the home folder. If it detects a CI run, it draws nothing
    # before it ends.
    environment = {name: value for name, value in serving.environment().items()
                   if name not in ("CI", "CONTINUOUS_INTEGRATION") and not name.startswith("CI_")}
    environment.update(HOME=str(where.folder), TERM="xterm")
    with contextlib.closing(Screen(command, cwd=where.folder, env=environment)) as screen:
        screen.see(r"\[Connect\]")
        screen.press("c")
        # All lists have arrived: none is empty.
        counts = screen.see(
            r"Resources \(([1-9]\d*)\) +Prompts \(1\) +Skills \([1-9].* +Tools \(([1-9]\d*)\)")
        resources, tools = int(counts[1]), int(counts[2])
        screen.press("p")
        screen.see(r"▶ Protocol")
        assert not any(one in screen.shows() for one in TOLD), screen.shows()
        where.add_skill()
        for notification in TOLD:
            screen.see(notification)
        screen.see(r"Resources \(%d\)" % (resources + 1))
        screen.press("r")
        # The first entry of the list is the one that is open.
        screen.see(r"URI: skill://added/SKILL\.md")
        screen.leave()
    return "listed %d tools, was told of a new skill, and showed its resource" % tools


def run():
    wrong = []
    for transport, era in programs.LANES:
        with serving.place() as where:
            try:
                if transport == "stdio":
                    did = check(serving.configuration("stdio", where), where, era)
                else:
                    with serving.served(where) as url:
                        did = check(serving.configuration("http", where, url), where, era)
                print("  terminal, %s, %s: %s" % (transport, era, did))
            except (AssertionError, subprocess.SubprocessError, RuntimeError) as error:
                wrong.append("terminal, %s, %s: %s" % (transport, era, error))
    return wrong
