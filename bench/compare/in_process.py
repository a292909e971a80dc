"""Compares one call inside a process: skillhost's library with the contract in Python, and
with a plain read of the same file in Rust."""
import contextlib
import sys

from clients import TimedProcess, check_same, on_one_processor
from figures import in_turns, ratio
from subject import ERRORS, SIZES, arguments_for

TOOL = "read_file_in_skill"
AGAINST_PYTHON = "in process, with the JSON message, against Python"
AGAINST_RUST = "in process, the text alone, against a plain read in Rust"
PYTHON = ("skillhost's library", "the contract in Python")
RUST = ("skillhost's library", "`std::fs::read_to_string`")
# The number of calls of a side before the other side's turn.
TIMES = {"4 KB": 100, "64 KiB": 50, "1 MiB": 8}


def measure(setup, rounds, say):
    rows = []
    with on_one_processor():
        host = TimedProcess(setup.driver(setup.skills))
        python = TimedProcess([sys.executable, setup.script("contract.py"), str(setup.skills)])
    with contextlib.closing(host), contextlib.closing(python):
        for size in SIZES:
            rows.append(against_python(host, python, size, arguments_for(size), TIMES[size],
                                       0.6 if size == "4 KB" else None, rounds, say))
        for what, arguments in ERRORS.items():
            rows.append(against_python(host, python, what, arguments, 100, 0.6, rounds, say))
        for size in SIZES:
            rows.append(against_native(setup, host, size, rounds, say))
    return rows


def against_python(host, python, what, arguments, times, target, rounds, say):
    check_same(what, host.answer(arguments, tool=TOOL, form="record"), python.answer(arguments))
    taken = in_turns(host.calls(arguments, tool=TOOL, form="record"), python.calls(arguments),
                     rounds, times, lambda text: say("in process, %s: %s" % (what, text)))
    name = "in-process-%s" % what.replace(" ", "-")
    return ratio(name, AGAINST_PYTHON, what, PYTHON, taken, target)


def against_native(setup, host, size, rounds, say):
    arguments = arguments_for(size)
    path = str(setup.skills / "subject" / arguments["file_path"])
    native = host.execute(order="native", path=path, times=1)["last"]
    check_same(size, host.answer(arguments, tool=TOOL, form="text"), native)
    taken = in_turns(
        host.calls(arguments, tool=TOOL, form="text"),
        lambda times: host.execute(order="native", path=path, times=times)["nanoseconds"],
        rounds, TIMES[size], lambda text: say("against the plain read, %s: %s" % (size, text)))
    name = "native-%s" % size.replace(" ", "-")
    return ratio(name, AGAINST_RUST, size, RUST, taken,
                 2.5 if size == "1 MiB" else None)
