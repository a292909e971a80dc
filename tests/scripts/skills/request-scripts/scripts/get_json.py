import sys, requests
print(requests.get(sys.argv[1] + "/items", params={"page": 2, "q": "ä b&c"}).json())
