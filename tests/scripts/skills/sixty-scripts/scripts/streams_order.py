"""Writes to both streams, and puts others in their place."""
import contextlib
import io
import sys

print("one")
print("two", file=sys.stderr)
with contextlib.redirect_stdout(io.StringIO()) as text:
    print("hidden")
sys.stdout.write("three " + text.getvalue())
sys.stdout.reconfigure(encoding="utf-8", errors="replace")
print("\udcff?", flush=True)
print("four", end="")
print(" five")
