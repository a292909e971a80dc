"""Imports a module beside which a data file has its name."""
import beside

print(beside.NAME)
