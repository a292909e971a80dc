with open("large", "wb") as file:
    for _ in range(1024):
        file.write(bytes(1 << 20))
