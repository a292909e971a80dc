"""Reads and writes XML."""
import xml.etree.ElementTree as ET

tree = ET.parse("data/feed.xml")
for entry in tree.getroot().iter("entry"):
    print(entry.get("id"), entry.findtext("title"), entry.find("x:n", {"x": "urn:x"}).text)
root = ET.Element("out", total="2")
ET.SubElement(root, "item").text = "<&>"
ET.indent(root)
print(ET.tostring(root, encoding="unicode"))
ET.ElementTree(root).write("out.xml", encoding="utf-8", xml_declaration=True)
