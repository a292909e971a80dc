"""Leaves to the interpreter what is to be done when a script ends."""
import logging
import logging.handlers
import pathlib
import sys
import weakref


class Report:
    """Something that is finalized."""


handler = logging.handlers.MemoryHandler(100, target=logging.StreamHandler(sys.stdout))
logging.basicConfig(level=logging.INFO, handlers=[handler], format="%(levelname)s %(message)s")
report = Report()
weakref.finalize(report, pathlib.Path("finalized.txt").write_text, "at the end\n")
logging.info("kept until the end")
print("printed at once")
