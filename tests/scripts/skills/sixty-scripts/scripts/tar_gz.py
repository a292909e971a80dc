"""A tar archive, compressed."""
import io
import tarfile

buffer = io.BytesIO()
with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
    tar.add("data/people.json", arcname="people.json")
    info = tarfile.TarInfo("made.txt")
    info.size = 4
    tar.addfile(info, io.BytesIO(b"made"))
buffer.seek(0)
with tarfile.open(fileobj=buffer) as tar:
    for member in tar:
        print(member.name, member.size, member.isfile())
    print(tar.extractfile("made.txt").read())
