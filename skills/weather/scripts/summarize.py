"""Summarise a saved forecast response, one line a day.

    python3 scripts/summarize.py examples/forecast_response.json
    python3 scripts/summarize.py --units imperial --days 2 FILE

Reads one file and uses no network. Exit status: 0 summary printed, 1 the file
is not a forecast response, 2 wrong usage.
"""

import argparse
import datetime
import json
import sys

WIND_WORTH_A_WORD_KMH = 30


def rain(chance):
    percent = round(chance * 100)
    if percent < 10:
        return "dry"
    if percent < 40:
        words = "rain is possible"
    elif percent < 70:
        words = "rain is about as likely as not"
    else:
        words = "rain is likely"
    return f"{words} ({percent} %)"


def temperature(celsius, units):
    return round(celsius * 9 / 5 + 32) if units == "imperial" else round(celsius)


def wind(kmh, units):
    return f"{round(kmh / 1.609344)} mph" if units == "imperial" else f"{round(kmh)} km/h"


def line(day, units):
    date = datetime.date.fromisoformat(day["date"])
    sign = "°F" if units == "imperial" else "°C"
    low, high = temperature(day["low_c"], units), temperature(day["high_c"], units)
    parts = [day["sky"], f"{low} to {high} {sign}", rain(day["rain_chance"])]
    if day["wind_kmh"] >= WIND_WORTH_A_WORD_KMH:
        parts.append(f"wind up to {wind(day['wind_kmh'], units)}")
    return f"{date:%a} {date.isoformat()}: " + ", ".join(parts)


def summary(response, units, days):
    place = response["location"]
    lines = [f"WARNING: {warning}" for warning in response["warnings"]]
    lines.append(f"{place['name']}, {place['country']}")
    lines += [line(day, units) for day in response["days"][:days]]
    lines.append(f"Forecast of {response['issued_at']}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Summarise a saved forecast response.")
    parser.add_argument("file")
    parser.add_argument("--units", choices=["metric", "imperial"], default="metric")
    parser.add_argument("--days", type=int, default=3)
    options = parser.parse_args()
    # City names come in every script; the output is UTF-8 whatever the locale.
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        with open(options.file, encoding="utf-8") as file:
            print(summary(json.load(file), options.units, options.days))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        print(f"error: {options.file} is not a forecast response: {problem!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
