"""Bytes as text."""
import base64
import binascii
import quopri

data = bytes(range(0, 256, 5))
print(base64.b64encode(data).decode(), base64.urlsafe_b64encode(b"\xff\xfe"), base64.b32encode(b"hi"), base64.b85encode(b"hello"))
print(binascii.hexlify(data[:8], "-"), quopri.encodestring("é=".encode()))
try:
    base64.b64decode("a===", validate=True)
except binascii.Error as error:
    print(type(error).__name__)
