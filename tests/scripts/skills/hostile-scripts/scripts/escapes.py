import sys

print("\x1b[2J\x1b]0;title\x07 \u202e \x00 done")
sys.stdout.buffer.write(b"\xff\xfe\n")
