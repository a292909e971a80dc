"""Sends one request over TLS with Python's own library, and prints the result."""

import http.client
import json
import os
import socket
import ssl
import sys

asked = json.loads(sys.argv[1])
context = ssl.create_default_context(cafile=asked["authority"])
context.set_alpn_protocols(asked.get("protocols", ["http/1.1"]))
if "version" in asked:
    version = ssl.TLSVersion[asked["version"]]
    context.minimum_version = context.maximum_version = version
if "certificate" in asked:
    context.load_cert_chain(asked["certificate"], asked["key"])
connection = http.client.HTTPSConnection("localhost", asked["port"], context=context, timeout=20)
try:
    body = asked.get("body")
    method = "POST" if body else "GET"
    connection.request(method, asked["path"], body, asked.get("headers", {}))
    tls = connection.sock
    answer = connection.getresponse()
    if "replace" in asked:
        os.replace(*asked["replace"])
    found = {
        "status": answer.status,
        "body": answer.read().decode(),
        "version": tls.version(),
        "protocol": tls.selected_alpn_protocol(),
        "serial": tls.getpeercert()["serialNumber"],
    }
    if asked.get("until_closed"):
        found["closed"] = tls.recv(1) == b""
    if asked.get("reconnect"):
        plain = socket.create_connection(("localhost", asked["port"]), timeout=20)
        again = context.wrap_socket(plain, server_hostname="localhost", session=tls.session)
        found["resumed"] = again.session_reused
except (OSError, http.client.HTTPException) as error:
    found = {"error": str(error) or type(error).__name__}
print(json.dumps(found))
