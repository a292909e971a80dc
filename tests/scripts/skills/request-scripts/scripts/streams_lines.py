"""Reads events as they come."""
import json, sys, requests
with requests.get(sys.argv[1] + "/lines", stream=True, headers={"Accept": "text/event-stream"}) as response:
    for line in response.iter_lines(decode_unicode=True):
        if line.startswith("data: "):
            print(json.loads(line[6:]))
