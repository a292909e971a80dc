import re, sys, requests
response = requests.get(f"{sys.argv[1]}/page")
response.encoding = response.apparent_encoding if not response.encoding else response.encoding
print(response.encoding, re.findall(r'href="([^"]+)"', response.text), re.search("<title>(.*?)</title>", response.text)[1])
