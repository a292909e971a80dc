"""Measures whole processes: a call from the command line, a server up to its first answer, and
the memory of an idle server."""
import contextlib
import os
import re
import time

from clients import Bare, Failed
from figures import in_turns, ratio, row, side_figures
from over_mcp import commands
from subject import arguments_for

GROUP = "whole processes"
ARGUMENTS = arguments_for("4 KB")
CALL = '{"skill_name": "%(skill_name)s", "file_path": "%(file_path)s"}' % ARGUMENTS
SKILL = {"skill_name": ARGUMENTS["skill_name"]}
TOOLS = {
    "read_file_in_skill": ARGUMENTS,
    "get_skill": SKILL,
    "read_skill_file": dict(SKILL, path=ARGUMENTS["file_path"]),
    "read_skill": SKILL,
    "list_skills": {},
}
# The seconds after which a server has freed the memory that it needed only for its start.
REST = 2.0


def measure(setup, rounds, say):
    return [command_line(setup, rounds, say), *first_answers(setup, rounds, say),
            memory(setup, say)]


def run_to_end(command, env):
    """Returns a side that measures a program from its start to its end, without its output."""
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]

    def run(times):
        nanoseconds = []
        for _ in range(times):
            start = time.perf_counter_ns()
            process = os.posix_spawn(command[0], command, env, file_actions=nowhere)
            _, status = os.waitpid(process, 0)
            nanoseconds.append(time.perf_counter_ns() - start)
            if status != 0:
                raise Failed("`%s` ended with exit code %d" % (
                    " ".join(command), os.waitstatus_to_exitcode(status)))
        return nanoseconds
    return run


def call(setup):
    return [setup.skillhost, "call", "read_file_in_skill", CALL, "--skills", str(setup.skills)]


def command_line(setup, rounds, say):
    env = setup.environment
    taken = in_turns(run_to_end(call(setup), env), run_to_end([setup.skillhost, "--version"], env), rounds, 4,
                     lambda text: say("the command line: %s" % text))
    names = ("skillhost call", "skillhost --version")
    what = "`call` on a 4 KB file, against `--version`"
    return ratio("process-call", GROUP, what, names, taken, 3)


def first_answer(command, env):
    """Returns a side that measures from the start of a server to a tool's result, as a client
    sees it."""
    def run(times):
        nanoseconds = []
        for _ in range(times):
            start = time.perf_counter_ns()
            with contextlib.closing(Bare(command, env)) as server:
                failed, text = server.read(ARGUMENTS)
                nanoseconds.append(time.perf_counter_ns() - start)
            if failed:
                raise Failed("`%s` answered %r" % (command[0], text))
        return nanoseconds
    return run


def first_answers(setup, rounds, say):
    ours, theirs = (first_answer(command, setup.environment) for command in commands(setup))
    # Fewer rounds than elsewhere, because the other side loads Python and the SDK each time.
    taken = in_turns(lambda times: ours(4 * times), theirs, max(3, rounds // 20), 1,
                     lambda text: say("the first answer: %s" % text))
    alone = side_figures("skillhost serve", taken[0])
    what = "`serve`, up to the first result"
    yield row("process-first-result", GROUP, what, alone["median_ns"] / 1e6, "ms", 40, ours=alone)
    names = ("skillhost serve", "a server on the Python SDK, no sandbox")
    yield ratio("process-first-result-python", GROUP, what + ", against Python", names, taken)


def memory(setup, say):
    say("the memory of an idle server")
    mebibytes, offered = resident(setup)
    if not offered >= set(TOOLS):
        raise Failed("the idle server does not have all tools: it has %s" % offered)
    what = "resident memory of an idle server, its tools and %s skills" % format(
        setup.counts["skills"][0], ",")
    return row("process-memory", GROUP, what, mebibytes, "MiB", 64)


def resident(setup):
    """Returns the memory of an idle server in mebibytes, and its tools. Calls each tool first,
    so that nothing is left to load."""
    command = [setup.skillhost, "serve", "--skills", str(setup.many_skills)]
    with contextlib.closing(Bare(command, setup.environment)) as server:
        offered = {tool["name"] for tool in server.ask("tools/list", {})["tools"]}
        for tool, arguments in TOOLS.items():
            failed, text = server.call(tool, arguments)
            if failed:
                raise Failed("`%s` answered %.300r" % (tool, text))
        time.sleep(REST)
        with open("/proc/%d/status" % server.process.pid, encoding="ascii") as status:
            kilobytes = int(re.search(r"^VmRSS:\s*(\d+) kB", status.read(), re.MULTILINE)[1])
    return kilobytes / 1024, offered
