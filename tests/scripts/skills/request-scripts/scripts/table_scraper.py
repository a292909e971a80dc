"""Reads a table of a page, and writes it as CSV."""
import csv
import html.parser
import sys
import urllib.request


class TableParser(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.rows = []
        self.cell = None

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.cell = []

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self.cell is not None:
            self.rows[-1].append(" ".join("".join(self.cell).split()))
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)


opener = urllib.request.build_opener()
opener.addheaders = [("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"), ("Accept-Language", "en")]
page = opener.open(sys.argv[1] + "/table").read().decode("utf-8")
parser = TableParser()
parser.feed(page)
parser.close()
head, *rows = parser.rows
with open("table.csv", "w", newline="", encoding="utf-8") as file:
    csv.writer(file).writerows([head, *rows])
print(open("table.csv", encoding="utf-8").read())
total = sum(float(row[head.index("Price")].strip("€").replace(",", "")) for row in rows)
print(f"{len(rows)} rows, {total:.2f} in total")
