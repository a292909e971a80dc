"""Keeps a database in a file."""
import os
import sqlite3

with sqlite3.connect("notes.db") as db:
    db.execute("create table notes (id integer primary key, text text)")
    db.executemany("insert into notes (text) values (?)", [("one",), ("two",), ("three",)])
db.close()
db = sqlite3.connect("notes.db")
try:
    with db:
        db.execute("delete from notes")
        raise ValueError("rolled back")
except ValueError as error:
    print(error)
print(db.execute("select count(*), group_concat(text) from notes").fetchone())
db.close()
print(open("notes.db", "rb").read(15))
os.remove("notes.db")
