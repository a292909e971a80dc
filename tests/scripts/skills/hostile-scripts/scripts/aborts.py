import atexit
import os

print("kept")
atexit.register(print, "not reached")
os.abort()
