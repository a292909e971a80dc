"""Sends a secret that only the host has."""
import os, sys, requests
token = os.environ["TOKEN"]
response = requests.get(sys.argv[1], headers={"Authorization": f"Bearer {token}"})
print(response.status_code, response.text)
print("not the secret" if token != "the-secret-of-the-tests" else token)
