"""Reads and writes YAML."""
import yaml

with open("data/config.yaml") as file:
    config = yaml.safe_load(file)
print(config)
print(yaml.safe_dump(config, sort_keys=True, default_flow_style=False))
try:
    yaml.safe_load("a: [1, 2")
except yaml.YAMLError as error:
    print(type(error).__name__, error.problem_mark.line)
