"""Walks the skill's folder."""
from pathlib import Path

root = Path(__file__).parent.parent
for path in sorted(root.joinpath("data").rglob("*")):
    print(path.relative_to(root), path.suffix, path.stat().st_size)
print(Path("data/../data/./sales.csv").resolve().relative_to(Path.cwd()))
print([p.name for p in sorted(Path("data").glob("*.[jy]*"))])
print(Path("a/b.tar.gz").with_suffix(".zip"), Path("/x/y") / "z", Path("data").exists(), Path("nothing").exists())
