"""Ends with a text, which goes to stderr."""
import sys

try:
    sys.exit("error: nothing to do")
finally:
    print("finally")
