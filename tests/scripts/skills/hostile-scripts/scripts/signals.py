import os
import signal

signal.signal(signal.SIGTERM, lambda *_: print("caught"))
signal.alarm(1)
