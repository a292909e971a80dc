print("first")
print("x" * 10_000_000)
print("last")
