"""The tool look_up_term: looks up the meaning of a word in a skill's glossary."""

from typing import Annotated

from skillhost_kit import Failure, Folder, export, tool

# The maximum number of terms to list when a term is not found.
LISTED = 50


@tool(title="Look up a term", skill="skill_name", path="file_path")
def look_up_term(
    folder: Folder,
    skill_name: Annotated[str, "Name of the skill"],
    term: Annotated[str, "The term, in upper or lower case"],
    file_path: Annotated[str, "Path of the glossary in the skill's folder"] = "glossary.txt",
) -> str:
    """Look up what a term means in a skill's glossary."""
    term = term.strip()
    if not term:
        raise Failure.invalid_arguments("The term is empty.")
    terms = []
    for line in folder.read_text(file_path).splitlines():
        name, colon, meaning = line.partition(":")
        if line.startswith("#") or not colon:
            continue
        if name.strip().lower() == term.lower():
            return meaning.strip()
        terms.append(name.strip())
    listed = ", ".join(terms[:LISTED])
    raise Failure.not_found(f"{file_path} has no term '{term}'. It has: {listed}.")


# The component exports the class of this name.
Tools = export(look_up_term)
