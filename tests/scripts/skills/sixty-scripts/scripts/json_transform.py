"""Changes JSON from stdin."""
import json
import sys

people = json.load(sys.stdin)
for person in people:
    person["age_2024"] = 2024 - person["born"]
json.dump(people, sys.stdout, indent=2, sort_keys=True, ensure_ascii=False)
print()
print(json.dumps({"ü": [1.5, None, True]}, separators=(",", ":")))
try:
    json.loads('{"a": }')
except json.JSONDecodeError as error:
    print(error.lineno, error.colno)
