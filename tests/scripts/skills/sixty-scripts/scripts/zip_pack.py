"""Packs and lists a zip archive."""
import io
import zipfile

buffer = io.BytesIO()
with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.write("data/sales.csv", "sales.csv")
    archive.writestr("notes/read.me", "hello " * 100)
buffer.seek(0)
with zipfile.ZipFile(buffer) as archive:
    print(archive.testzip(), archive.namelist())
    for info in archive.infolist():
        print(info.filename, info.file_size, hex(info.CRC))
    print(archive.read("notes/read.me")[:11])
