import sys, requests
from requests.auth import HTTPBasicAuth
for auth in (None, ("ada", "wrong"), HTTPBasicAuth("ada", "secret")):
    response = requests.get(sys.argv[1] + "/basic", auth=auth)
    print(response.status_code, response.ok, response.json(), response.headers.get("WWW-Authenticate"))
