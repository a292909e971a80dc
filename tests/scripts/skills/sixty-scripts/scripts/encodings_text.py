"""Texts in several encodings."""
import codecs
import unicodedata

for encoding in ("utf-8", "utf-16", "latin-1", "cp1252", "shift_jis", "gb18030"):
    try:
        print(encoding, len("é日".encode(encoding)))
    except UnicodeEncodeError as error:
        print(encoding, error.reason)
with open("latin.txt", "w", encoding="iso-8859-15") as file:
    file.write("5 €")
print(open("latin.txt", "rb").read(), codecs.open("latin.txt", encoding="iso-8859-15").read() if False else open("latin.txt", encoding="iso-8859-15").read())
print(unicodedata.normalize("NFD", "é") == "e\u0301", unicodedata.name("☃"), "ß".casefold(), "İ".lower().encode())
