"""Time zones."""
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

for zone in ("Europe/Berlin", "America/New_York", "Asia/Kolkata"):
    for month in (1, 7):
        print(datetime(2024, month, 1, 12, tzinfo=ZoneInfo(zone)).isoformat())
try:
    ZoneInfo("No/Where")
except ZoneInfoNotFoundError as error:
    print("unknown")
