"""Joins and groups in a database in memory."""
import csv
import sqlite3

from shared import data

db = sqlite3.connect(":memory:")
db.row_factory = sqlite3.Row
db.execute("create table sales (day text, region text, product text, units int, price real)")
with data("sales.csv").open(newline="") as file:
    rows = list(csv.reader(file))[1:]
db.executemany("insert into sales values (?, ?, ?, ?, ?)", rows)
for row in db.execute("select region, sum(units * price) as total, count(*) n from sales group by 1 order by total desc"):
    print(dict(row))
db.create_function("double", 1, lambda value: value * 2)
print(db.execute("select double(max(units)), date('2024-01-31', '+1 month') from sales").fetchone()[:])
