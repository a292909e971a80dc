"""Copies, moves and removes trees."""
import os
import shutil

shutil.copytree("data", "copy", ignore=shutil.ignore_patterns("*.xml"))
print(sorted(os.listdir("copy")))
shutil.move("copy/old.txt", "copy/older.txt")
shutil.copy2("copy/older.txt", "kept.txt")
print(os.path.exists("copy/old.txt"), open("kept.txt").read().split())
shutil.rmtree("copy")
print(os.path.exists("copy"), shutil.which("no-such-program"))
