import os

os.mkdir("many")
for number in range(10**6):
    open(f"many/{number}", "w").close()
