"""Posts a message to a webhook, with the standard library only."""
import json, sys, urllib.request
data = json.dumps({"text": "Deployed ✓", "blocks": [1, 2]}).encode()
request = urllib.request.Request(sys.argv[1] + "/echo", data=data, headers={"Content-Type": "application/json"}, method="POST")
with urllib.request.urlopen(request) as response:
    print(response.status, response.reason, json.load(response))
