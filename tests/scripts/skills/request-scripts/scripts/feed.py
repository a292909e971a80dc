"""Lists the titles of a feed."""
import sys, urllib.request
import xml.etree.ElementTree as ElementTree
with urllib.request.urlopen(sys.argv[1] + "/xml") as response:
    print([title.text for title in ElementTree.parse(response).iter("title")])
