import io, re, sys, requests
response = requests.post(sys.argv[1] + "/echo", data={"name": "report"}, files={"file": ("a.csv", io.BytesIO(b"a,b\n1,2\n"), "text/csv")})
found = response.json()
boundary = re.search("boundary=(.*)", found["headers"]["content-type"])[1]
print(found["body"].replace(boundary, "BOUNDARY").splitlines())
