"""Logs in with a form, and uses the session's cookie."""
import http.cookiejar
import json
import re
import sys
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

jar = http.cookiejar.CookieJar()
opener = build_opener(HTTPCookieProcessor(jar))
form = opener.open(sys.argv[1] + "/login").read().decode()
token = re.search(r'name="csrf" value="(\w+)"', form).group(1)
answer = opener.open(sys.argv[1] + "/login", urlencode({"user": "ada", "password": "lovelace", "csrf": token}).encode())
print(answer.status, json.load(answer))
print([(cookie.name, cookie.path, cookie.secure) for cookie in jar])
print(json.load(opener.open(sys.argv[1] + "/account")))
