"""Ends with a traceback."""


def inner(value):
    return 1 / value


print("before")
inner(0)
