"""A host that refuses connections, or that the grant does not allow, ends in the usual exceptions."""
import sys, urllib.error, urllib.request, httpx, requests
unreachable = sys.argv[2]
for name, call, kinds in [
    ("requests", lambda: requests.get(unreachable), requests.exceptions.ConnectionError),
    ("session", lambda: requests.Session().post(unreachable, json={}), requests.exceptions.RequestException),
    ("httpx", lambda: httpx.get(unreachable), httpx.ConnectError),
    ("urllib", lambda: urllib.request.urlopen(unreachable), urllib.error.URLError),
]:
    try:
        print(name, call())
    except kinds as error:
        print(name, type(error).__name__)
