import os

os.makedirs("/".join(["d"] * 10_000))
