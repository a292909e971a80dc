"""Follows links to further pages."""
import sys, requests
url, items = sys.argv[1] + "/items", []
while url:
    response = requests.get(url, timeout=10)
    items += response.json()
    url = response.links.get("next", {}).get("url")
print(len(items), [item["id"] for item in items])
