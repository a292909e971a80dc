"""Runs the named parts, or those for each change, and prints their results."""
import sys
import time

import chain
import others
import page

PARTS = {"chain": chain.run, "skill": chain.run_skill, "page": page.run, **others.PARTS,
         "languages": lambda: chain.run(chain.VERSIONED)}
# Parts that take long, or depend on Debian's testing suite.
BEFORE_RELEASE = ["languages", "newest-cosign", "newest-oras"]


def main():
    names = sys.argv[1:] or [name for name in PARTS if name not in BEFORE_RELEASE]
    failed = []
    for name in names:
        if name not in PARTS:
            sys.exit("there is no part `%s`; choose from %s" % (name, ", ".join(PARTS)))
        start = time.monotonic()
        print("== %s" % name, flush=True)
        try:
            PARTS[name]()
            result = "passed"
        except AssertionError as error:
            print("FAILED: %s" % error)
            result = "FAILED"
            failed.append(name)
        print("%s in %.0f s" % (result, time.monotonic() - start), flush=True)
    sys.exit("failed: %s" % ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
