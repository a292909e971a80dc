"""Binary records."""
import array
import struct

record = struct.pack("<4sHIf?", b"RIFF", 7, 1 << 30, 1.5, True)
print(record, struct.unpack("<4sHIf?", record), struct.calcsize(">qhb"))
print(array.array("i", [1, 2, 3]).tobytes(), int.from_bytes(b"\x01\x00", "big"), (1000).to_bytes(4, "little"))
view = memoryview(bytearray(b"abcdef"))
view[1:3] = b"XY"
print(view.tobytes())
