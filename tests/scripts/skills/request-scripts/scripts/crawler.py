"""Visits the pages of a site, and reports dead links."""
import collections
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import urllib.robotparser

start = sys.argv[1] + "/site/index.html"
robots = urllib.robotparser.RobotFileParser(sys.argv[1] + "/robots.txt")
robots.read()
queue, seen, dead = collections.deque([start]), {start}, []
while queue:
    url = queue.popleft()
    path = urllib.parse.urlsplit(url).path
    if not robots.can_fetch("crawler", url):
        print("not allowed", path)
        continue
    try:
        with urllib.request.urlopen(url) as response:
            kind = response.headers.get_content_type()
            text = response.read().decode() if kind == "text/html" else ""
    except urllib.error.HTTPError as error:
        dead.append((path, error.code))
        continue
    print(path, kind, len(text))
    for link in re.findall(r'href="([^"#]*)', text):
        target = urllib.parse.urljoin(url, link)
        if target.startswith(sys.argv[1]) and target not in seen:
            seen.add(target)
            queue.append(target)
print("dead:", dead)
