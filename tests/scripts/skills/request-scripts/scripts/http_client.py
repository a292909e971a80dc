import http.client, json, sys
from urllib.parse import urlencode, urlsplit
connection = http.client.HTTPConnection(urlsplit(sys.argv[1]).netloc, timeout=10)
connection.request("POST", "/echo?" + urlencode({"a": "1 2"}), body="text", headers={"Content-Type": "text/plain"})
response = connection.getresponse()
print(response.status, response.reason, json.loads(response.read()))
connection.request("HEAD", "/file")
response = connection.getresponse()
print(response.status, response.getheader("content-length"), response.read())
connection.request("GET", "/lines")
response = connection.getresponse()
print([line for line in response if line.strip()])
connection.close()
