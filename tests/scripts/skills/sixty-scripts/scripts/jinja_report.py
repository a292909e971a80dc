"""Fills a template of jinja2."""
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError

env = Environment(loader=FileSystemLoader("data"), undefined=StrictUndefined, trim_blocks=True)
rows = [{"region": "North", "total": 291.38}, {"region": "South", "total": 92.5}]
text = env.get_template("report.md.j2").render(title="Report", rows=rows)
Path("report.md").write_text(text)
print(text)
print(Environment(autoescape=True).from_string("{{ x }}").render(x="<b>"))
try:
    env.from_string("{{ nothing }}").render()
except UndefinedError as error:
    print(error)
