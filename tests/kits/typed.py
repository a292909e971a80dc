"""Makes a project whose functions have types of their own in the place of another, whose compiler
is installed there, and builds, tests and calls it."""
import json
import shutil

import program

# The comment of the function in the project's WIT.
COMMENT = "Look up what a term means in a skill's glossary. The term may be in upper or lower case."


def run(folder, language):
    shutil.rmtree(folder)
    program.run(folder.parent, "new", folder.name, "--typed", "--lang", language).exits_with(0)
    result = program.run(folder, "build").exits_with(0).prints_not("REFUSED", "hosts also load")
    result.prints("built `", "dist/find_word.wasm`", "called by: functions with types", COMMENT,
                  "  name: find-word\n", "  version: 0.1.0\n")
    found = program.run(folder, "inspect", "dist/find_word.wasm", "--output", "json").exits_with(0)
    # What a compiler adds is no tool.
    (tool,) = json.loads(found.stdout)["tools"]
    assert tool["name"] == "find_word", tool
    program.run(folder, "test", "dist/find_word.wasm", "--cases", "cases").exits_with(0)
    arguments = json.dumps({"skill_name": "sailing-terms", "term": "halyard"})
    result = program.run(folder, "call", "find_word", arguments).exits_with(0)
    entry = {"term": "halyard", "meaning": "a rope that hoists a sail"}
    assert json.loads(result.stdout) == entry, result.stdout
