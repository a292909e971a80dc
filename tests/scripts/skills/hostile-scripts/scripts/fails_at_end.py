"""Fails or loops when its objects are finalized."""
import sys


class Thing:
    def __del__(self):
        print("finalized")
        if sys.argv[1] == "loops":
            while True:
                pass
        raise ValueError("at the end")


thing = Thing()
