"""Reads lines from stdin."""
import sys

first = sys.stdin.readline()
rest = [line.rstrip("\n") for line in sys.stdin]
print(repr(first), rest, sys.stdin.read() == "", sys.stdin.isatty())
