"""A module of the skill goes before one of Python's."""
import colorsys

print(colorsys.WHO)
