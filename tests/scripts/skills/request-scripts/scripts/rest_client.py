"""A client of a REST service, as a class with a session."""
import sys

import requests


class Client:
    def __init__(self, base_url, token):
        self.base_url = base_url.rstrip("/")
        self.session = requests.Session()
        self.session.headers.update({"Authorization": f"Bearer {token}", "X-Test": "client"})

    def call(self, method, path, **options):
        response = self.session.request(method, f"{self.base_url}/{path}", timeout=10, **options)
        response.raise_for_status()
        return response.json()


client = Client(sys.argv[1], "token-1")
for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
    print(client.call(method, "echo", json={"method": method} if method != "GET" else None))
