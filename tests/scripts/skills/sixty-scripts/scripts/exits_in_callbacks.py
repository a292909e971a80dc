"""Ends in code that the interpreter calls, or with an odd exit code."""

import atexit
import os
import sys
import weakref


class Ender:
    def __del__(self):
        os._exit(4)


class Named:
    pass


class OddNumber(int):
    def __and__(self, other):
        raise TypeError("no operators")

    __lt__ = __le__ = __index__ = __int__ = __and__


print("kept", flush=True)
how = sys.argv[1]
if how == "del":
    ender = Ender()
    del ender
elif how == "end":
    ender = Ender()
    ender.itself = ender
    print("lost", file=open("lost.txt", "w"))
elif how == "atexit":
    atexit.register(os._exit, 5)
elif how == "finalize":
    named = Named()
    weakref.finalize(named, os._exit, 6)
    del named
elif how == "frames":
    def suspended():
        try:
            yield 1
        finally:
            print("not reached", flush=True)

    def last_frame():
        generator = suspended()
        next(generator)
        os._exit(8)

    last_frame()
elif how == "deep":
    def deeper(depth):
        try:
            deeper(depth + 1)
        except RecursionError:
            os._exit(10)

    deeper(0)
elif how == "monitored":
    # Python before 3.12 has no monitoring.
    for tool in range(6) if hasattr(sys, "monitoring") else []:
        sys.monitoring.use_tool_id(tool, "script")
    try:
        os._exit(9)
    finally:
        print("not reached", flush=True)
elif how in ("text", "too large"):
    try:
        os._exit("5" if how == "text" else 10 ** 30)
    except (TypeError, OverflowError) as error:
        print(type(error).__name__)
elif how == "number":
    sys.exit(OddNumber(7))
elif how == "large":
    sys.exit(10 ** 30)
