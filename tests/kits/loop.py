"""Measures the time from a change of one line to its result in `skillhost dev`."""
import os
import pathlib
import subprocess
import threading
import time

import program

# The time limit of one build and its cases, in seconds.
TIME_LIMIT = 300
# The maximum time from a change to its result on an idle machine with two processors, in seconds. This
# machine may be busy, so a run fails only if it takes SLACK times as much processor time.
TARGETS = {"rust": 2, "python": 10, "javascript": 5, "c": 2}
SLACK = 6

# For each language: the file, a text in it, and a replacement that makes cases fail.
CHANGES = {
    "rust": ("src/lib.rs", "has no term", "has not the term"),
    "python": ("tool.py", "has no term", "has not the term"),
    "javascript": ("src/tool.js", "has no term", "has not the term"),
    "c": ("src/tool.c", "has no term", "has not the term"),
}


def run(folder, language):
    """Starts `dev`, makes one change, prints the time to its result, and reverts it."""
    path, right, wrong = CHANGES[language]
    file = folder / path
    text = file.read_text()
    assert text.count(right) == 1, "%s has no %r" % (path, right)
    process = subprocess.Popen([program.SKILLHOST, "dev", "."], cwd=folder, encoding="utf-8",
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    timer = threading.Timer(TIME_LIMIT, process.kill)
    timer.start()
    try:
        shown, *_ = until_tested(process)
        assert "fails" not in shown, shown
        start, start_used = time.monotonic(), processor_time(process.pid)
        file.write_text(text.replace(right, wrong))
        shown, end, parts = until_tested(process)
        took, used = end - start, processor_time(process.pid) - start_used
        assert "fails: expected" in shown, shown
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        file.write_text(text)
    print("%s: a change of one line shows its result after %.1f s (%d s on an idle machine), %.1f s of processors; it %s" % (
        language, took, TARGETS[language], used, parts), flush=True)
    assert used < SLACK * TARGETS[language], "%s: the loop takes %.1f s of processors" % (language, used)


def processor_time(pid):
    """Returns the processor time of a process and its ended children, in seconds."""
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def until_tested(process):
    """Returns the output of `dev` up to the end of a round, the time when it printed the number of
    passed cases, and its line on the duration."""
    shown, end = "", None
    for line in process.stdout:
        shown += line
        if line.endswith(" pass\n"):
            end = time.monotonic()
        if line.startswith("took ") and end:
            return shown, end, line.strip()
    raise AssertionError("`skillhost dev` ended: %s" % shown)
