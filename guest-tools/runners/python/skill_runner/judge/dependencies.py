"""The packages that a script names in its head, in the form of PEP 723."""

import re
import tomllib

from .. import unsupported
from .flow import Need

BLOCK = re.compile(r"(?m)^# /// script$\s(?P<content>(?:^#(?:| .*)$\s)+)^# ///$")
NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def missing(baked, source):
    """Returns a need for each package that the runner does not have."""
    block = BLOCK.search(source.head)
    if block is None:
        return []
    text = "".join(line[2:] if line.startswith("# ") else line[1:] for line in block["content"].splitlines(True))
    try:
        packages = tomllib.loads(text).get("dependencies", [])
    except tomllib.TOMLDecodeError:
        return []
    present = {normalized(name) for name in baked.versions}
    line = source.head.count("\n", 0, block.start()) + 1
    needs = []
    for package in packages if isinstance(packages, list) else []:
        found = NAME.match(package) if isinstance(package, str) else None
        if found and normalized(found[1]) not in present:
            reason = unsupported.MODULES.get(found[1].lower(), unsupported.OTHER_MODULE)
            needs.append(Need(source.path, line, f"the package {found[1]}", reason))
    return needs
