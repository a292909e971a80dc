"""Data classes, and what is made of them."""
from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace


@dataclass(order=True, frozen=True)
class Version:
    major: int
    minor: int = 0
    tags: tuple[str, ...] = field(default=(), compare=False)


@dataclass
class Release:
    name: str
    versions: list[Version] = field(default_factory=list)


release = Release("x", [Version(1, 2, ("a",)), Version(0, 9)])
print(release, min(release.versions), json.dumps(asdict(release)))
print(replace(release.versions[0], minor=3))
try:
    release.versions[0].major = 4
except AttributeError as error:
    print(type(error).__name__)
