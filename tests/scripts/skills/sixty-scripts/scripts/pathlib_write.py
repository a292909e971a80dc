"""Writes, renames and removes."""
from pathlib import Path

out = Path("out/deep")
out.mkdir(parents=True, exist_ok=True)
(out / "a.txt").write_text("größe\n", encoding="utf-8")
(out / "b.bin").write_bytes(bytes(range(256)))
(out / "a.txt").rename(out / "c.txt")
(out / "b.bin").unlink()
with (out / "c.txt").open("a") as file:
    file.write("more\n")
print((out / "c.txt").read_text(encoding="utf-8"), sorted(p.name for p in out.iterdir()))
try:
    (out / "none").read_text()
except FileNotFoundError as error:
    print(type(error).__name__, error.strerror)
