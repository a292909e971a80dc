"""Sends GraphQL queries with variables, and prints the errors of the answer."""
import json
import sys
from urllib.request import Request, urlopen

QUERY = """
query Items($first: Int!) {
  items(first: $first) { id }
}
"""


def query(url, text, **variables):
    body = json.dumps({"query": " ".join(text.split()), "variables": variables}).encode("utf-8")
    request = Request(url, data=body)
    request.add_header("Content-Type", "application/json; charset=utf-8")
    request.add_header("Accept", "application/json")
    with urlopen(request, timeout=15) as response:
        answer = json.load(response)
    for error in answer.get("errors", []):
        print("error:", error["message"], "at", error["path"])
    return answer.get("data")


print(query(sys.argv[1] + "/graphql", QUERY, first=2))
print(query(sys.argv[1] + "/graphql", QUERY, first=-1))
