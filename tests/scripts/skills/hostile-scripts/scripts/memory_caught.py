blocks = []
try:
    while True:
        blocks.append(bytearray(1 << 20))
except MemoryError:
    blocks.clear()
    print("caught")
