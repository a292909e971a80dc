"""Dates and durations."""
import time
from datetime import date, datetime, timedelta, timezone

day = datetime(2024, 2, 28, 23, 30, tzinfo=timezone.utc)
print(day + timedelta(hours=1), day.strftime("%A %d %B %Y %j %U"), day.timestamp())
print(date.fromisoformat("2024-12-30").isocalendar(), (date(2024, 3, 1) - date(2024, 2, 1)).days)
print(datetime.strptime("01/02/24 5PM", "%d/%m/%y %I%p"), time.strftime("%Y-%m-%d", time.gmtime(0)))
print(day.astimezone(timezone(timedelta(hours=-5))).isoformat())
