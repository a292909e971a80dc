"""Builds a multipart body without a library, and uploads it."""
import io
import json
import mimetypes
import sys
import uuid
from urllib import request


class Form:
    def __init__(self):
        self.boundary = uuid.uuid4().hex
        self.buffer = io.BytesIO()

    def _part(self, disposition, data, kind=None):
        head = f"--{self.boundary}\r\nContent-Disposition: form-data; {disposition}\r\n"
        if kind:
            head += f"Content-Type: {kind}\r\n"
        self.buffer.write(head.encode("utf-8") + b"\r\n" + data + b"\r\n")

    def field(self, name, value):
        self._part(f'name="{name}"', value.encode("utf-8"))

    def file(self, name, filename, data):
        kind = mimetypes.guess_type(filename)[0] or "application/octet-stream"
        self._part(f'name="{name}"; filename="{filename}"', data, kind)

    def finish(self):
        self.buffer.write(f"--{self.boundary}--\r\n".encode())
        return self.buffer.getvalue()


form = Form()
form.field("title", "Ä report")
form.file("upload", "table.csv", b"a,b\n1,2\n")
form.file("upload", "photo.png", bytes(range(256)) * 64)
body = form.finish()
upload = request.Request(sys.argv[1] + "/upload", data=body, method="PUT")
upload.add_header("Content-Type", f"multipart/form-data; boundary={form.boundary}")
with request.urlopen(upload) as response:
    for part in json.load(response)["parts"]:
        print(part)
