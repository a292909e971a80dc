"""Digests."""
import hashlib
import hmac

data = open("data/people.json", "rb").read()
for name in ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b"):
    print(name, hashlib.new(name, data).hexdigest()[:24])
print(hmac.new(b"key", data, "sha256").hexdigest()[:16])
with open("data/old.txt", "rb") as file:
    print(hashlib.file_digest(file, "sha256").hexdigest()[:8] if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()[:8])
