"""Reads all records of an API with cursors, as typed objects."""
from __future__ import annotations

import dataclasses
import datetime
import statistics
import sys
from collections.abc import Iterator

import httpx


@dataclasses.dataclass(frozen=True)
class Record:
    id: int
    name: str
    created: datetime.datetime

    @classmethod
    def from_json(cls, found: dict) -> Record:
        return cls(found["id"], found["name"], datetime.datetime.fromisoformat(found["created"]))


def records(client: httpx.Client) -> Iterator[Record]:
    cursor: str | None = None
    while True:
        response = client.get("/records", params={"limit": 4} | ({"cursor": cursor} if cursor else {}))
        page = response.raise_for_status().json()
        yield from map(Record.from_json, page["data"])
        if not page["has_more"]:
            return
        cursor = page["next_cursor"]


def log(response: httpx.Response) -> None:
    print(response.request.method, response.request.url.raw_path.decode(), response.status_code)


with httpx.Client(base_url=sys.argv[1], event_hooks={"response": [log]}) as client:
    found = list(records(client))
for record in found:
    print(f"{record.id:>3} {record.name:<8} {record.created:%d %b %Y %H:%M}")
print(statistics.mean(record.id for record in found))
