import json, sys, urllib.error, urllib.request
for code in (400, 404, 503):
    try:
        urllib.request.urlopen(f"{sys.argv[1]}/status/{code}")
    except urllib.error.HTTPError as error:
        print(error.code, error.reason, json.loads(error.read()))
