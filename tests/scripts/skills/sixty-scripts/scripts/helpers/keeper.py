"""Keeps a file open."""
file = open("keeper.txt", "w")
file.write("a module's")
