"""Writes and reads a message."""
from email import message_from_string, policy
from email.message import EmailMessage

message = EmailMessage()
message["Subject"] = "Grüße"
message["To"] = "a@example.org"
message.set_content("Text\n")
message.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename="a.bin")
message.set_boundary("X")
print(message.as_string())
read = message_from_string(message.as_string(), policy=policy.default)
print(read["subject"], [part.get_content_type() for part in read.walk()])
