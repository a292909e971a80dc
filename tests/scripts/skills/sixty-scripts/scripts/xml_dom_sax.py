"""The older ways to read XML."""
import xml.sax
from xml.dom import minidom

document = minidom.parse("data/feed.xml")
print([node.firstChild.data for node in document.getElementsByTagName("title")])


class Counter(xml.sax.ContentHandler):
    found = 0

    def startElement(self, name, attrs):
        self.found += 1


handler = Counter()
xml.sax.parse("data/feed.xml", handler)
print(handler.found)
try:
    minidom.parseString("<a><b></a>")
except Exception as error:
    print(type(error).__name__, error)
