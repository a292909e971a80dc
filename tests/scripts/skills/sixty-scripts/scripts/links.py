"""Compares files through symbolic links, and copies a file onto itself."""
import os
import pathlib
import shutil

os.symlink("data/sales.csv", "link.csv")
os.symlink("data", "folder")
print(os.path.samefile("link.csv", "data/sales.csv"), os.path.samefile("data/app.log", "link.csv"))
print(os.path.samefile("folder", "data"), os.path.samefile("folder/sales.csv", "link.csv"))
print(pathlib.Path("link.csv").samefile("folder/sales.csv"), pathlib.Path("folder").samefile(pathlib.Path("data")))
try:
    shutil.copy("link.csv", "data/sales.csv")
except shutil.SameFileError as error:
    print(error)
# Python before 3.14 has no such method.
if hasattr(pathlib.Path, "copy"):
    try:
        pathlib.Path("link.csv").copy("data/sales.csv")
        print("copied")
    except OSError:
        pass
with open("data/sales.csv") as file:
    print(os.path.samefile(file.fileno(), file.fileno()), len(file.read()))
try:
    os.path.samefile("link.csv", "folder/absent")
except FileNotFoundError as error:
    print(error.filename)
os.unlink("link.csv")
os.unlink("folder")
