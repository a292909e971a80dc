"""Finds the runner's imports, and asks them for other skills and for another script."""
import sys

frame = sys._getframe()
while "hidden" not in frame.f_locals:
    frame = frame.f_back
imports = frame.f_locals["hidden"]
host = imports["wit_world.imports.scripts"]
try:
    host.start("scripts/helper.py")
except Exception as error:
    print("start:", error.value)
host.finished(42)
skills = imports["wit_world.imports.skills"]
print("skills:", skills.list(), skills.page(None, 100).total, skills.find("skill", 100).hits)
