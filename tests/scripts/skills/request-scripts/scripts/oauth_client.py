"""Gets an access token by client credentials, and a new one after the first has expired."""
import os
import sys

import requests


class Api:
    def __init__(self, base_url):
        self.base_url = base_url
        self.token = None

    def login(self):
        form = {"grant_type": "client_credentials", "client_id": "reports",
                "client_secret": os.environ.get("CLIENT_SECRET", "s p&c")}
        response = requests.post(self.base_url + "/token", data=form, timeout=10)
        response.raise_for_status()
        answer = response.json()
        self.token = answer["access_token"]
        print("new token for", answer["expires_in"], "seconds")

    def get(self, path):
        if self.token is None:
            self.login()
        for _ in range(2):
            headers = {"Authorization": f"Bearer {self.token}"}
            response = requests.get(self.base_url + path, headers=headers, timeout=10)
            if response.status_code != 401:
                break
            print("refused:", response.headers["WWW-Authenticate"])
            self.login()
        response.raise_for_status()
        return response.json()


api = Api(sys.argv[1])
api.token = "expired"
print(api.get("/protected"))
print(api.get("/protected"))
