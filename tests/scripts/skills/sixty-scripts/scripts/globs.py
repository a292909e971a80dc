"""Finds files by patterns."""
import fnmatch
import glob
import os

print(sorted(glob.glob("data/*.t*")), sorted(os.path.basename(p) for p in glob.glob("**/*.json", recursive=True)))
print(fnmatch.filter(["a.py", "b.txt", "c.PY"], "*.py"), [name for name in sorted(os.listdir(".")) if name[0] != "."])
