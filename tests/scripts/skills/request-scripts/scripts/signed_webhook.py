"""Sends events that are signed with HMAC, as the receiver checks them."""
import hashlib
import hmac
import json
import sys

import requests

KEY = b"shared key"


def sign(timestamp, body):
    text = f"v0:{timestamp}:".encode() + body
    return "v0=" + hmac.new(KEY, text, hashlib.sha256).hexdigest()


def send(url, event, timestamp, signature=None):
    body = json.dumps(event, separators=(",", ":"), sort_keys=True).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Signature-Timestamp": str(timestamp),
        "X-Signature": signature or sign(timestamp, body),
    }
    response = requests.post(url, data=body, headers=headers, timeout=5)
    print(response.status_code, response.json())


url = sys.argv[1] + "/signed"
send(url, {"type": "deploy", "ok": True, "name": "Übersicht"}, 1_700_000_000)
send(url, {"type": "deploy", "ok": False}, 1_700_000_001, signature="v0=" + "0" * 64)
