"""Pins libraries of PyPI and npm, builds them into a tool and calls it, and checks the errors."""
import json

import lanes
import program

# For each language: the pinned libraries, the edits of the tool, and the answer of a call.
TOOLS = {
    "python": (
        ["pyyaml==6.0.3", "fastjsonschema==2.22.3"],
        [("tool.py", "from skillhost_kit", "import fastjsonschema\nimport yaml\nfrom skillhost_kit"),
         ("tool.py", "return meaning.strip()", """from decimal import Decimal

            entry = yaml.safe_load("{term: %s, rope: yes, metres: 0.3}" % term)
            schema = {"properties": {"metres": {"type": "number", "multipleOf": 0.1}}}
            fastjsonschema.validate(schema, entry)
            mast = "m\\\\u00e2t".encode().decode("unicode_escape")
            # No source names this codec, but libraries use it for names of hosts.
            host = mast.encode("id" + "na").decode()
            return yaml.safe_dump(entry, allow_unicode=True) + str(Decimal(3) / 10) + mast + host""")],
        "metres: 0.3\nrope: true\nterm: halyard\n0.3m\u00e2txn--mt-pia"),
    "javascript": (
        # The second has a browser variant that needs a page.
        ["marked==18.2.1", "decode-named-character-reference==1.3.0", "buffer==6.0.3"],
        [("src/tool.js", "import { Failure", 'import { marked } from "marked";\n'
          'import { decodeNamedCharacterReference } from "decode-named-character-reference";\n'
          'import { Buffer } from "buffer";\n'
          'import { Failure'),
         ("src/tool.js", "return line.slice(colon + 1).trim();",
          'return Buffer.from("rope").toString("base64") + decodeNamedCharacterReference("Eacute") + marked.parse(`**\u00c9toile**, ${line.slice(colon + 1).trim()}`) + '
          '/^\\p{Lu}\\p{Ll}+$/u.test("\u00c9toile");')],
        "cm9wZQ==\u00c9<p><strong>\u00c9toile</strong>, a rope that hoists a sail</p>\ntrue"),
}

# Libraries that cannot be pinned, and what `add-library` prints.
REFUSED = {
    "python": [
        # There is no library of this name.
        ("yaml", 1, ["from versions: none", "the registry has no library of this name", "`import yaml` needs `pyyaml`"]),
        # It has no wheel.
        ("docopt==0.6.2", 1, ["`pip install --dry-run` failed", "only libraries with wheels"]),
        ("numpy", 1, ["`numpy` has native code", "nothing was pinned", "use `statistics`", "numpy --native`"]),
        ("--index-url=https://example.org", 2, []),
        ("../own", 2, ["is not the name of a library"]),
    ],
    "javascript": [
        ("marked==99.0.0", 1, ["No matching version", "`marked==VERSION`"]),
        ("file:../own", 2, ["is not the name of a library"]),
    ],
}

FASTJSONSCHEMA = "fastjsonschema==2.22.3 \\\n    --hash=sha256:"
MARKED = '"node_modules/marked": {\n      "version": "18.2.1",\n      "integrity": "sha512-'
# Replaces the right hash by a wrong one. The right hash stays in a member that npm ignores.
OTHER_HASH = 'sha512-%s==", "no-hash": "sha512-' % ("A" * 86)
# Mistakes with libraries: the file, a text in it, its replacement, the exit code, and the messages of
# the build.
MISTAKES = {
    "python": [
        # Other bytes than those that were pinned.
        ("requirements.txt", FASTJSONSCHEMA, FASTJSONSCHEMA + "0000", 1,
         ["DO NOT MATCH THE HASHES", "`pip install` failed", "version and hashes"]),
        ("tool.py", "import yaml\n", "import yaml.cyaml\n", 1,
         ["No module named 'yaml._yaml'", "`yaml/_yaml.", "is native code, which a tool cannot run"]),
    ],
    "javascript": [
        ("src/tool.js", 'from "marked"', 'from "node:fs"', 1,
         ["src/tool.js:2: it imports `node:fs`, a part of Node.js"]),
        # Packages of the kit's compiler, which are for Node.js.
        ("src/tool.js", 'import { marked } from "marked"', 'import * as marked from "tar"', 1,
         ["node_modules/", "imports `fs`, a part of Node.js", "also runs in browsers"]),
        ("src/tool.js", 'from "marked"', 'from "missing-package"', 1,
         ["src/tool.js:2: it imports `missing-package`", "`skillhost add-library missing-package`",
          "; pinned are buffer, decode-named-character-reference, marked"]),
        # A package whose names the bundler does not know.
        ("src/tool.js", 'import { marked } from "marked"', 'import { marked } from "regenerate"', 1,
         ["TypeError: src/tool.js:2: the package `regenerate` exports no `marked`"]),
        # Other bytes than those that were pinned.
        ("package-lock.json", MARKED, MARKED.replace("sha512-", OTHER_HASH), 1,
         ["EINTEGRITY", "`npm ci` failed", "find out why before you pin them"]),
    ],
}

# Additional files that a build refuses: their length, and the messages.
FILES = {
    "python": [("yaml.py", 2, ["yaml.py:1: the library `PyYAML` has a module `yaml` too",
                               "rename this one"])],
    "javascript": [("src/data.js", 50 << 20, ["src/data.js", "50.0 MiB", "a tool may have 10.0 MiB"])],
}


def run(folder, language):
    if language not in TOOLS:
        return
    names, edits, answer = TOOLS[language]
    for library, code, messages in REFUSED[language]:
        program.run(folder, "add-library", library).exits_with(code).prints(*messages)
    for name in names:
        program.run(folder, "add-library", name).exits_with(0).prints(
            "pinned `%s` %s" % tuple(name.split("==")))
        program.run(folder, "add-library", name).exits_with(0).prints(" already")
    for path, right, wrong in edits:
        text = (folder / path).read_text()
        assert text.count(right) == 1, "%s has no %r" % (path, right)
        (folder / path).write_text(text.replace(right, wrong))
    lanes.build(folder)
    arguments = json.dumps({"skill_name": "sailing-terms", "term": "halyard"})
    result = program.run(folder, "call", "find_word", arguments).exits_with(0)
    assert result.stdout == answer, "expected %r, got %r" % (answer, result.stdout)
    for path, right, wrong, code, messages in MISTAKES[language]:
        edit = {"file": path, "from": right, "to": wrong}
        lanes.make(folder, {"edits": [edit], "exit": code, "says": messages})
    for path, length, messages in FILES[language]:
        (folder / path).write_bytes(b"//" + b"x" * (length - 2) if path.endswith(".js") else b"#\n")
        program.run(folder, "build").exits_with(1).prints(*messages)
        (folder / path).unlink()
    for name in names:
        name = name.split("==")[0]
        program.run(folder, "remove-library", name).exits_with(0).prints("removed `%s`" % name)
        program.run(folder, "remove-library", name).exits_with(2).prints("has no library `%s`" % name)
