"""Refuses entities."""
import defusedxml.ElementTree as ET
from defusedxml import EntitiesForbidden, minidom

print(ET.parse("data/feed.xml").getroot().tag, minidom.parseString("<a b='1'/>").documentElement.tagName)
try:
    ET.fromstring('<!DOCTYPE d [<!ENTITY a "b">]><d>&a;</d>')
except EntitiesForbidden as error:
    print("refused", error.name)
