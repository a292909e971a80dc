"""Counts lines of a log by level."""
import re
from collections import Counter

pattern = re.compile(r"^(?P<day>\S+) (?P<time>\S+) (?P<level>[A-Z]+)\s+(?P<text>.*)$", re.M)
text = open("data/app.log").read()
print(Counter(match["level"] for match in pattern.finditer(text)).most_common())
print(re.sub(r"(\d+)s\b", lambda m: f"{int(m[1]) / 60:.1f}min", text.splitlines()[3]))
print(re.findall(r"(?<=pid=)\d+", text), re.split(r"[,;]\s*", "a, b;c"), re.fullmatch("a+", "aab"))
