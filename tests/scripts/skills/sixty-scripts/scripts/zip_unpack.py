"""Unpacks an archive into a folder."""
import zipfile
from pathlib import Path

with zipfile.ZipFile("pack.zip", "w") as archive:
    archive.writestr("word/document.xml", "<w>text</w>")
    archive.writestr("[Content_Types].xml", "<Types/>")
with zipfile.ZipFile("pack.zip") as archive:
    archive.extractall("unpacked")
for path in sorted(Path("unpacked").rglob("*")):
    print(path.as_posix(), path.is_dir() or path.read_text())
Path("pack.zip").unlink()
