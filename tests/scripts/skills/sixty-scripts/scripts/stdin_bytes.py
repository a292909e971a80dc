"""Reads bytes, and writes bytes."""
import sys

data = sys.stdin.buffer.read()
sys.stdout.buffer.write(data.upper() + b"\n")
sys.stdout.buffer.flush()
print(len(data))
