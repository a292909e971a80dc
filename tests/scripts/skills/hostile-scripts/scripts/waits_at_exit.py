import atexit


def wait():
    while True:
        pass


atexit.register(wait)
