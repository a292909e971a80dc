"""Reads TOML."""
try:
    import tomllib
except ImportError:
    import tomli as tomllib

with open("data/config.toml", "rb") as file:
    config = tomllib.load(file)
print(config["title"], config["owner"]["born"], [step["run"] for step in config["steps"]])
