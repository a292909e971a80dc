"""What is done at the end."""
import atexit
import sys
import weakref


class Thing:
    pass


thing = Thing()
atexit.register(print, "first registered")
atexit.register(lambda: print("last registered"))
weakref.finalize(thing, print, "finalized")
print("main")
sys.exit(4)
