import socket, sys, urllib.request, httpx, requests
try:
    requests.get(sys.argv[1] + "/slow", timeout=0.5)
except requests.exceptions.Timeout as error:
    print("requests", type(error).__name__)
try:
    httpx.get(sys.argv[1] + "/slow", timeout=0.5)
except httpx.TimeoutException as error:
    print("httpx", type(error).__name__)
try:
    urllib.request.urlopen(sys.argv[1] + "/slow", timeout=0.5)
except (TimeoutError, OSError) as error:
    print("urllib", type(error).__name__, isinstance(error, socket.timeout))
