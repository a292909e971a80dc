"""Reads and writes the streams by the numbers of their descriptors."""
import io
import os
import sys

how = sys.argv[1]
if how == "read":
    print(os.read(0, 3), os.read(sys.stdin.fileno(), 100), os.read(0, 1))
elif how == "both":
    print(sys.stdin.readline(), repr(open(0, closefd=False).read()))
elif how == "file":
    file = io.FileIO(0, closefd=False)
    print(file.read(2), repr(sys.stdin.read()), file.read())
elif how == "buffers":
    file = open(0, "rb", closefd=False)
    print(type(file).__name__, file.peek(2)[:2], file.readline(), type(file.raw).__name__ != "")
    print(open(0, "rb", buffering=0, closefd=False).read())
sys.stdout.flush()
io.FileIO(1, "w", closefd=False).write(b"to stdout\n")
io.FileIO(2, "w", closefd=False).write(b"to stderr\n")
with open("new.bin", "wb") as file, io.FileIO("new.bin") as again:
    file.write(b"1")
    print(isinstance(file.raw, io.FileIO), type(again).__name__, isinstance(sys, io.FileIO), issubclass(io.FileIO, io.RawIOBase))
