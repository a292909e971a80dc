"""Writes a report as Markdown and as JSON."""
import csv
import json
import os
from collections import defaultdict

totals = defaultdict(lambda: {"units": 0, "value": 0.0})
with open("data/sales.csv", newline="") as file:
    for row in csv.DictReader(file):
        total = totals[row["product"]]
        total["units"] += int(row["units"])
        total["value"] += int(row["units"]) * float(row["price"])
os.makedirs("reports/2024", exist_ok=True)
with open("reports/2024/summary.md", "w") as file:
    file.write("| product | units | value |\n|---|---|---|\n")
    for name, total in sorted(totals.items()):
        file.write(f"| {name} | {total['units']} | {total['value']:.2f} |\n")
with open("reports/2024/summary.json", "w") as file:
    json.dump(totals, file, indent=1, sort_keys=True)
print("wrote", sorted(os.listdir("reports/2024")))
