import ctypes

ctypes.CDLL("libc.so.6").system(b"ls")
