import json
import sys

sys.setrecursionlimit(10**9)
json.loads("[" * 10**6)
