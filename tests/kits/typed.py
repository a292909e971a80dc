"""Replaces a project by a typed one, which uses the same installed compiler, and builds, tests and
calls it."""
import json
import shutil

import program

# The comment of the function in the project's WIT.
COMMENT = "Look up what a term means in a skill's glossary. The term may be in upper or lower case."

# For each language with imports in functions: the file, a line of it, its replacement, and the
# answer with it.
LATE_IMPORTS = {
    "python": ("tool.py", "return Entry(name.strip(), meaning.strip())", """from decimal import Decimal

                mast = "m\\\\u00e2t".encode().decode("unicode_escape")
                return Entry(mast, str(Decimal(3) / 10))""", {"term": "m\u00e2t", "meaning": "0.3"}),
}


def run(folder, language):
    shutil.rmtree(folder)
    program.run(folder.parent, "new", folder.name, "--typed", "--lang", language).exits_with(0)
    result = program.run(folder, "build").exits_with(0).prints_not("REFUSED", "hosts also load")
    result.prints("built `", "dist/find_word.wasm`", "interface: functions with their own WIT types", COMMENT,
                  "  name: find-word\n", "  version: 0.1.0\n")
    found = program.run(folder, "inspect", "dist/find_word.wasm", "--output", "json").exits_with(0)
    # Exports that a compiler adds are not tools.
    (tool,) = json.loads(found.stdout)["tools"]
    assert tool["name"] == "find_word", tool
    # The description is the comment on the record's field.
    described = tool["output_schema"]["properties"]["meaning"]
    assert described["description"] == "What it means, in a few words.", tool
    program.run(folder, "test", "dist/find_word.wasm", "--cases", "cases").exits_with(0)
    answers(folder, {"term": "halyard", "meaning": "a rope that hoists a sail"})
    read_odd_glossaries(folder)
    if language in LATE_IMPORTS:
        path, right, late, entry = LATE_IMPORTS[language]
        text = (folder / path).read_text()
        assert text.count(right) == 1, "%s has no %r" % (path, right)
        (folder / path).write_text(text.replace(right, late))
        program.run(folder, "build").exits_with(0)
        answers(folder, entry)


def read_odd_glossaries(folder):
    """Calls the tool with long lines, long terms, and a glossary in another encoding."""
    skill = folder / "skills/sailing-terms"
    meaning = "\u00e9" * 1200
    (skill / "long.txt").write_text("mast: %s\n" % meaning)
    (skill / "latin.txt").write_bytes(b"m\xe2t: a mast\n")

    def call(term, path):
        arguments = {"skill_name": "sailing-terms", "term": term, "file_path": path}
        return program.run(folder, "call", "find_word", json.dumps(arguments))

    found = call("mast", "long.txt").exits_with(0)
    assert json.loads(found.stdout) == {"term": "mast", "meaning": meaning}, found.stdout
    missing = call("\u00e9" * 2100, "long.txt")
    assert missing.code == 1 and "failed before it answered" not in missing.stderr, missing.stderr
    unreadable = call("mast", "latin.txt")
    assert unreadable.code == 1 and "latin.txt" in unreadable.stderr + unreadable.stdout, unreadable.stderr


def answers(folder, entry):
    arguments = json.dumps({"skill_name": "sailing-terms", "term": "halyard"})
    result = program.run(folder, "call", "find_word", arguments).exits_with(0)
    assert json.loads(result.stdout) == entry, result.stdout
