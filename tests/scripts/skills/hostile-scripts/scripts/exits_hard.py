import os

print("kept")
try:
    os._exit(3)
except BaseException:
    print("not reached")
finally:
    print("nor this")
print("nor that")
