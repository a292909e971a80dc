"""Dates in words."""
from datetime import datetime

from dateutil import parser
from dateutil.relativedelta import relativedelta
from dateutil.rrule import MONTHLY, rrule

print(parser.parse("3 March 2024 14:05"), parser.parse("2024-02-29T10:00:00Z").isoformat())
print(datetime(2024, 1, 31) + relativedelta(months=1))
print([day.day for day in rrule(MONTHLY, count=4, dtstart=datetime(2024, 1, 31))])
