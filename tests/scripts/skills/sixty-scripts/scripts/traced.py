"""Leaves a function that traces or profiles its calls."""
import sys


def work():
    return 1


def show(frame, event, argument):
    print(event, frame.f_code.co_name)
    return show


def fail(*_):
    raise ZeroDivisionError


how = sys.argv[1]
if how == "trace":
    sys.settrace(show)
    work()
elif how == "profile":
    sys.setprofile(show)
    work()
elif how == "failing trace":
    sys.settrace(fail)
elif how == "failing profile":
    sys.setprofile(lambda frame, event, argument: frame.f_code.co_name == "<module>" or fail())
