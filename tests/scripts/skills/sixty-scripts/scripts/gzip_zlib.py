"""Compresses and checks."""
import gzip
import zlib

text = b"the same line\n" * 500
with gzip.open("lines.gz", "wb") as file:
    file.write(text)
with gzip.open("lines.gz", "rt") as file:
    print(sum(1 for _ in file))
print(zlib.decompress(zlib.compress(text)) == text, hex(zlib.crc32(text)), zlib.adler32(text))
import os
os.remove("lines.gz")
