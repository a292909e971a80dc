"""Modules and packages of the skill."""
import importlib
import pathlib
import pkgutil

import helpers
import shared
from helpers.money import euros

print(euros(2.345), helpers.euros is euros, shared.ROOT.joinpath("SKILL.md").exists(), __name__)
print(importlib.import_module("helpers.money").__name__, helpers.__file__.endswith("scripts/helpers/__init__.py"))
importlib.invalidate_caches()
pathlib.Path(helpers.__file__).with_name("rates.txt").write_text("0.19")
print(pkgutil.get_data("helpers", "rates.txt"))
