"""Reads links and the title of a page."""
import sys, urllib.request
from html.parser import HTMLParser


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.title, self.in_title = [], "", False

    def handle_starttag(self, tag, attributes):
        self.in_title = tag == "title"
        if tag == "a":
            self.links.append(dict(attributes)["href"])

    def handle_data(self, data):
        if self.in_title:
            self.title += data
            self.in_title = False


request = urllib.request.Request(sys.argv[1] + "/page", headers={"User-Agent": "Mozilla/5.0"})
with urllib.request.urlopen(request, timeout=10) as response:
    text = response.read().decode(response.headers.get_content_charset() or "utf-8")
parser = Links()
parser.feed(text)
print(parser.title, parser.links)
