"""A page with a table and a chart, as one file."""
import html
import json
from pathlib import Path

people = json.loads(Path("data/people.json").read_text(encoding="utf-8"))
bars = "".join(f'<rect x="{i * 30}" y="0" width="20" height="{len(p["name"]) * 10}"/>' for i, p in enumerate(people))
rows = "".join(f"<tr><td>{html.escape(p['name'])}</td><td>{p['born']}</td></tr>" for p in people)
page = f"<!doctype html><meta charset='utf-8'><table>{rows}</table><svg xmlns='http://www.w3.org/2000/svg'>{bars}</svg>"
Path("people.html").write_text(page, encoding="utf-8")
print(len(page))
