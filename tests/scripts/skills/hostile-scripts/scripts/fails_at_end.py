"""Fails, loops or traces when its objects are finalized."""
import sys


def fail(*_):
    raise ZeroDivisionError


class Thing:
    def __del__(self):
        print("finalized")
        if sys.argv[1] == "loops":
            while True:
                pass
        if sys.argv[1] == "traces":
            sys.settrace(fail)
        else:
            raise ValueError("at the end")


thing = Thing()
