with open("large", "wb") as file:
    file.truncate(1 << 40)
