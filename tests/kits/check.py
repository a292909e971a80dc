"""Runs all parts, or those that the command line names, and prints their results."""
import resource
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


def main():
    names = sys.argv[1:] or list(PARTS)
    for name in names:
        if name not in PARTS:
            sys.exit("there is no part `%s`; choose from %s" % (name, ", ".join(PARTS)))
    failed = []
    for name in names:
        start, used = time.monotonic(), processor_time()
        print("== %s" % name, flush=True)
        try:
            PARTS[name]()
        except AssertionError as error:
            print("FAILED: %s" % error)
            failed.append(name)
        print("%s in %.0f s, %.0f s of processors" % (
            "FAILED" if name in failed else "passed", time.monotonic() - start,
            processor_time() - used), flush=True)
    sys.exit("failed: %s" % ", ".join(failed) if failed else 0)


def processor_time():
    """Returns the processor time of all commands so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
