"""Takes URLs apart."""
import ipaddress
import mimetypes
import uuid
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

parts = urlsplit("https://user@example.org:8443/a%20b?q=1&q=2#frag")
print(parts.hostname, parts.port, parse_qs(parts.query), unquote(parts.path), quote("ä /"), urlencode({"a": "b c"}))
print(ipaddress.ip_network("10.0.0.0/30").num_addresses, mimetypes.guess_type("a.json")[0], uuid.uuid5(uuid.NAMESPACE_URL, "x"), len(str(uuid.uuid4())))
