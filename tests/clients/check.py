"""Runs the named parts, or all, and prints the results."""
import sys
import time

import agents
import balancer
import comparison
import conformance
import inspector
import oauth
import programs
import skills
import terminal

PARTS = {
    "conformance": conformance.run,
    "python": lambda: programs.run("python"),
    "typescript": lambda: programs.run("typescript"),
    "skills": skills.run,
    "inspector": inspector.run,
    "terminal": terminal.run,
    "balancer": balancer.run,
    "oauth": oauth.run,
    "agents": agents.run,
    "comparison": comparison.run,
}


def main(parts):
    names = sys.argv[1:] or list(parts)
    for name in names:
        if name not in parts:
            sys.exit("unknown part `%s`; the parts are %s" % (name, ", ".join(parts)))
    failed = []
    for name in names:
        start = time.monotonic()
        print("== %s" % name, flush=True)
        wrong = parts[name]()
        for line in wrong:
            print("WRONG: %s" % line)
        if wrong:
            failed.append(name)
        print("%s in %.0f s" % ("FAILED" if wrong else "passed", time.monotonic() - start),
              flush=True)
    sys.exit("failed: %s" % ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main(PARTS)
