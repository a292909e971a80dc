"""Runs all parts, or those that the arguments name, and prints their results. If there are several,
two run at a time, in separate processes, because most steps of a part use one processor."""
import concurrent.futures
import resource
import subprocess
import sys
import time

import document
import examples
import javascript_scripts
import lanes
import scripts

PARTS = {language: lambda language=language: lanes.run(language) for language in lanes.LANGUAGES}
PARTS["examples"] = examples.run
PARTS["docs"] = document.run
PARTS["scripts"] = scripts.run
PARTS["javascript-scripts"] = javascript_scripts.run

# Parts that run in parallel. Those that look for the newest Python environment are in one lane.
LANES = [
    ["python", "examples", "docs", "scripts"],
    ["javascript", "rust", "c", "javascript-scripts"],
]


def main():
    assert sorted(sum(LANES, [])) == sorted(PARTS)
    names = sys.argv[1:] or list(PARTS)
    for name in names:
        if name not in PARTS:
            sys.exit("there is no part `%s`; choose from %s" % (name, ", ".join(PARTS)))
    if len(names) == 1:
        sys.exit(None if passes(names[0]) else "failed: %s" % names[0])
    chosen = [[name for name in lane if name in names] for lane in LANES]
    with concurrent.futures.ThreadPoolExecutor(len(chosen)) as threads:
        failed = sum(threads.map(run_lane, chosen), [])
    sys.exit("failed: %s" % ", ".join(failed) if failed else 0)


def run_lane(names):
    """Runs parts in sequence, prints their output, and returns the failed ones."""
    failed = []
    for name in names:
        part = subprocess.run([sys.executable, __file__, name], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        print(part.stdout, end="", flush=True)
        if part.returncode != 0:
            failed.append(name)
    return failed


def passes(name):
    """Runs a part, and prints its result and duration."""
    start = time.monotonic()
    print("== %s" % name, flush=True)
    try:
        PARTS[name]()
        result = "passed"
    except AssertionError as error:
        print("FAILED: %s" % error)
        result = "FAILED"
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("%s in %.0f s, %.0f s of processors" % (
        result, time.monotonic() - start, used.ru_utime + used.ru_stime), flush=True)
    return result == "passed"


if __name__ == "__main__":
    main()
