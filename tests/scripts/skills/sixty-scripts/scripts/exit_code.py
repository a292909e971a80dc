"""Ends with the exit code of its argument."""
import sys

print("before")
sys.exit(int(sys.argv[1]))
