import os

for depth in range(10_000):
    os.mkdir("d")
    os.chdir("d")
