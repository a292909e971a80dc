"""What the script is told by its surroundings."""
import os
import platform
import sys
from pathlib import Path

print(os.environ.get("NOT_SET", "default"), os.path.expanduser("~") == str(Path.home()), os.sep, os.linesep == "\n")
os.environ["MINE"] = "yes"
print(os.getenv("MINE"), sys.version_info >= (3, 10), platform.python_implementation(), sys.byteorder, sys.flags.optimize)
print(os.path.basename(os.getcwd()), os.path.relpath(__file__), sys.argv)
