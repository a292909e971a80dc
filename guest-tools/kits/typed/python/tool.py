"""The functions of `wit/`: look up the meaning of a word in a skill's glossary.

The build generates the modules `wit_world` and `componentize_py_types` from `wit/`. A class that
implements an interface has the interface's name.
"""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.terms import Entry

# The maximum number of terms to list when a term is not found.
LISTED = 50


class Terms(exports.Terms):
    def look_up_term(self, skill_name: str, term: str, file_path: str | None) -> Entry:
        term = term.strip()
        if not term:
            raise Err("The term is empty.")
        path = "glossary.txt" if file_path is None else file_path
        try:
            # The sandbox has only the skill's folder.
            with open(f"/skills/{skill_name}/{path}", encoding="utf-8") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            raise Err(f"{path}: not found") from None
        except (OSError, ValueError):
            raise Err(f"{path}: cannot be read") from None
        terms = []
        for line in lines:
            name, colon, meaning = line.partition(":")
            if line.startswith("#") or not colon:
                continue
            if name.strip().lower() == term.lower():
                return Entry(name.strip(), meaning.strip())
            terms.append(name.strip())
        raise Err(f"{path} has no term '{term}'. It has: {', '.join(terms[:LISTED])}.")
