"""Changes files of the skill in their places."""
import re
from pathlib import Path

changed = 0
for path in sorted(Path("data").glob("*.txt")):
    text = path.read_text()
    new = re.sub(r"^(\w)", lambda m: m[1].upper(), text, flags=re.M)
    if new != text:
        path.write_text(new)
        changed += 1
Path("data/app.log").unlink()
with open("data/new.txt", "r+") as file:
    file.seek(0, 2)
    file.write("END\n")
    file.truncate()
print(changed)
