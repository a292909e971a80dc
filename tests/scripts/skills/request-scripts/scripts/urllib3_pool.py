import json, sys, urllib3
http = urllib3.PoolManager(retries=urllib3.Retry(2, redirect=1))
print(json.loads(http.request("GET", sys.argv[1] + "/echo", fields={"a": "1"}).data))
print(http.request("POST", sys.argv[1] + "/echo", json={"b": 2}).json()["body"])
print(http.request("GET", sys.argv[1] + "/redirect").json()["query"])
print(http.request("GET", sys.argv[1] + "/gzip", headers=urllib3.make_headers(accept_encoding=True)).json())
