"""Posts the summary of a report to a chat, and says what the chat answered."""
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

REPORT = [("passed", 41), ("failed", 2), ("skipped", 0)]


def post(url, payload, as_form=False):
    text = json.dumps(payload, ensure_ascii=False)
    if as_form:
        data = urllib.parse.urlencode({"payload": text}).encode()
        kind = "application/x-www-form-urlencoded"
    else:
        data, kind = text.encode("utf-8"), "application/json"
    request = urllib.request.Request(url, data, {"Content-Type": kind, "User-Agent": "report/1.0"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.loads(response.read())["body"]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


lines = [f"• *{name}*: {count}" for name, count in REPORT if count]
blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)}}]
for as_form in (False, True):
    status, answer = post(sys.argv[1] + "/echo", {"text": "Tests ✔", "blocks": blocks}, as_form)
    print(status, answer.encode("latin-1").decode("utf-8"))
print(post(sys.argv[1] + "/status/410", {"text": "gone"}))
