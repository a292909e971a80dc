import sys, urllib.request, requests
response = requests.get(sys.argv[1] + "/redirect")
print(response.status_code, [it.status_code for it in response.history], response.url.endswith("/echo?from=redirect"))
print(requests.get(sys.argv[1] + "/redirect", allow_redirects=False).headers["Location"])
print(urllib.request.urlopen(sys.argv[1] + "/redirect").geturl().endswith("/echo?from=redirect"))
