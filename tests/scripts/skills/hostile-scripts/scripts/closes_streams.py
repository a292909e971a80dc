import os
import sys

print("before")
sys.stdout.close()
os.close(1)
os.close(2)
sys.stderr.close()
print("after")
