"""Reads a long export line by line, without holding it."""
import collections
import json
import sys

import urllib3

pool = urllib3.PoolManager(num_pools=2, headers={"Accept": "application/x-ndjson"}, timeout=urllib3.Timeout(connect=5, read=20))
response = pool.request("GET", sys.argv[1] + "/export", preload_content=False)
counts, rest = collections.Counter(), b""
for piece in response.stream(1000):
    *lines, rest = (rest + piece).split(b"\n")
    for line in lines:
        entry = json.loads(line)
        counts[entry["level"]] += entry["count"]
response.release_conn()
assert not rest
print(response.status, response.headers["content-type"], dict(sorted(counts.items())))
try:
    pool.request("GET", sys.argv[1] + "/status/500", retries=urllib3.Retry(status=1, backoff_factor=0, status_forcelist=[500]))
except urllib3.exceptions.MaxRetryError as error:
    print(type(error.reason).__name__, error.reason)
