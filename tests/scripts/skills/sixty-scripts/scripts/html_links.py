"""The links of a page."""
import html
from html.parser import HTMLParser
from urllib.parse import urljoin


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.links.append(urljoin("https://example.org/a/b", dict(attrs)["href"]))

    def handle_data(self, data):
        self.text.append(data)


parser = Links()
parser.feed(open("data/page.html").read())
print(parser.links, "".join(parser.text).split())
print(html.escape("<a href='x'>"), html.unescape("&eacute;&#33;"))
