"""Runs `new`, `build`, `test` and a call with the project's own grant for each language, makes
mistakes while building, and ends with the tool of `parity.py` and the project of `typed.py`."""
import json
import pathlib
import shutil
import tempfile

import parity
import program
import typed

LANGUAGES = ["rust", "python", "javascript", "c"]

# For each mistake: the file, the text, its replacement, the exit code, and what the build prints.
MISTAKES = {
    "rust": [
        ("src/lib.rs", "Ok(Output::text(meaning.trim()))", "Ok(Output::text(meaning.trim())",
         1, ["src/lib.rs:", "`cargo build` failed", "fix the first error above"]),
        ("Cargo.toml", 'crate-type = ["cdylib"]', 'crate-type = ["rlib"]',
         1, ["made no component", 'crate-type = ["cdylib"]']),
    ],
    "python": [
        ("tool.py", "return meaning.strip()", "return meaning.strip(",
         1, ["tool.py:28:", "never closed", "failed"]),
        ("tool.py", "LISTED = 50", "LISTED = FIFTY",
         1, ["tool.py", "NameError: name 'FIFTY' is not defined", "`componentize-py` failed"]),
        ("tool.py", "term: Annotated[str,", "term: Annotated[bytes,",
         1, ["the parameter `term`", "has no schema; use str", "`componentize-py` failed"]),
        ("tool.py", "folder: Folder,", "folder: Folder, *more: str,",
         1, ["`*more: str` is not a named argument", "list[…]"]),
        ("tool.py", '= "glossary.txt"', '= b"glossary.txt"',
         1, ["the default of `file_path` is not a JSON value", "use str"]),
        ("tool.py", "@tool(", "dict(",
         1, ["find_word is not a tool: put `@tool(…)` above"]),
        ("tool.py", "Tools = export(", "tools = export(",
         1, ["no attribute 'Tools'", "must define `Tools = export(…)`"]),
        ("tool.py", "export(find_word)", "export()",
         1, ["defines no tool", "export at least one"]),
        ("requirements.txt", "componentize-py==0.25.1", "componentize-py==0.25.0",
         1, ["`pip install` failed", "version and hashes"]),
    ],
    "javascript": [
        ("src/tool.js", 'throw Failure.invalidArguments("The term is empty.");', "throw Failure.(;",
         1, ["src/tool.js:", "SyntaxError", "failed"]),
        ("src/tool.js", "const LISTED = 50;", "const LISTED = FIFTY;",
         1, ["FIFTY is not defined", "`componentize-js` failed"]),
        ("src/tool.js", "  call(", "  async call(",
         1, ["the tool find_word: `call` is async", "`componentize-js` failed"]),
        ("src/tool.js", 'path: "file_path",', 'path: "file",',
         1, ["`path` names file, which is not a property of its schema", "`componentize-js` failed"]),
        ("package.json", '"0.23.0"', '"0.22.0"',
         1, ["`npm ci` failed", "`package-lock.json`"]),
    ],
    "c": [
        ("src/tool.c", "if (file == NULL)", "if (file == NULLL)",
         1, ["src/tool.c:", "NULLL", "`zig cc` failed"]),
        ("src/tool.c", "        .call = find_word,\n", "",
         1, ["src/tool.c:", "field 'call' requires explicit initialization", "`zig cc` failed"]),
        ("src/tool.c", "        .description = ", "        .title = ",
         1, ["src/tool.c:", "field 'description' requires explicit initialization"]),
        ("src/tool.c", '"Look up what a term means in a skill\'s glossary."', '""',
         1, ["the tool `find_word` has no description", "say in a sentence"]),
        ("src/tool.c", '.name = "find_word"', '.name = "find word"',
         1, ["no host would load it", "1 to 64 letters"]),
        ("src/tool.c", '"{\\"type\\": \\"object\\","', '"{\\"type\\": \\"object\\""',
         1, ["no host would load it", "its input schema", "not JSON"]),
        ("wit/tools.wit", "interface tools {", "interface tools ",
         1, ["in `wit`", "expected '{'"]),
    ],
}

# Edits that build, and the answer of a call.
BROKEN = {
    "python": [
        ([("tool.py", "return meaning.strip()", "meaning.strip(); return None")],
         "find_word broke off: TypeError: it returns NoneType, and neither str nor Output"),
    ],
    "javascript": [
        ([("src/tool.js", "return line.slice(colon + 1).trim();",
           "line.slice(colon + 1).trim(); return;")],
         "find_word broke off: TypeError: it returns neither a text nor { text, details }"),
    ],
}

# Traps: scripts and modules in the project that must not run in place of a compiler. Each
# would leave a file.
TRAPS = {
    "python": ["build/venv/bin/python", "build/venv/bin/componentize-py", "venv.py",
               "pip/__main__.py", "componentize_py.py"],
    "javascript": ["node_modules/.bin/componentize-js",
                   "node_modules/@bytecodealliance/componentize-js/src/cli.js"],
    "c": ["build/venv/bin/python", "venv.py", "pip/__main__.py", "ziglang/__main__.py",
          "ziglang/zig"],
}

# Texts that no person should have to read.
STACKS = ["Stack backtrace", "panicked", "RUST_BACKTRACE", "node:internal", "    at "]


def run(language):
    with tempfile.TemporaryDirectory(prefix="kits-") as base:
        folder = new(pathlib.Path(base), language)
        left = set_traps(folder, language)
        build(folder)
        assert not left.exists(), "the build ran `%s`" % left.read_text()
        test(folder)
        call(folder)
        for mistake in MISTAKES[language]:
            make(folder, mistake)
        for edits, message in BROKEN.get(language, []):
            break_off(folder, edits, message)
        # The restored project builds again, with another tool.
        parity.run(folder, language)
        typed.run(folder, language)


def new(base, language):
    arguments = ["new", "find-word", "--lang", language]
    if language == "rust":
        # The SDK is not in cargo's registry yet.
        arguments += ["--sdk-path", str(packaged_sdk(base))]
    program.run(base, *arguments).exits_with(0)
    return base / "find-word"


def packaged_sdk(base):
    """Packages and unpacks the SDK, as cargo's registry would. The project's build shows that
    it builds."""
    manifest = program.REPOSITORY / "guest-tools/sdk/Cargo.toml"
    program.shell(base, "cargo package --quiet --no-verify --allow-dirty --manifest-path '%s'"
                  " --target-dir package" % manifest).exits_with(0)
    (archive,) = (base / "package/package").glob("skillhost-guest-*.crate")
    shutil.unpack_archive(archive, base, "gztar")
    return base / archive.stem


def set_traps(folder, language):
    """Sets the traps, and returns the file that they would leave."""
    left = folder.parent / "left"
    for path in TRAPS.get(language, []):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith((".py", ".js")):
            call = {".py": "open(%r, 'w').write(%r)",
                    ".js": "require('fs').writeFileSync(%r, %r)"}[file.suffix]
            file.write_text(call % (str(left), path) + "\n")
        else:
            file.write_text("#!/bin/sh\necho '%s' >'%s'\n" % (path, left))
        file.chmod(0o755)
    # Pretend that the compiler is installed.
    for mark, locks in [("build/venv/installed", ["requirements.txt"]),
                        ("node_modules/.installed", ["package.json", "package-lock.json"])]:
        if (folder / mark).parent.is_dir():
            (folder / mark).write_text("".join((folder / lock).read_text() for lock in locks))
    return left


def build(folder):
    result = program.run(folder, "build").exits_with(0)
    result.prints("built `", "dist/find_word.wasm`", "  name: find-word\n", "  version: 0.1.0\n",
                  "  description: Looks terms up in a skill's glossary\n")
    assert "  find_word: reads the skill named by `skill_name`\n" in result.stdout, result.stdout
    result.prints_not("REFUSED", "hosts also load")


def test(folder):
    program.run(folder, "test", "dist/find_word.wasm", "--cases", "cases").exits_with(0)


def call(folder):
    def ask(**arguments):
        return program.run(folder, "call", "find_word", json.dumps(arguments))

    result = ask(skill_name="sailing-terms", term="halyard").exits_with(0)
    assert result.stdout == "a rope that hoists a sail", result.stdout
    result = ask(skill_name="sailing-terms", term="rudder").exits_with(1)
    assert result.stdout.startswith("glossary.txt has no term 'rudder'. It has: bow, stern,"), result.stdout
    # A skill outside the grant is refused.
    shutil.copytree(folder / "skills/sailing-terms", folder / "skills/other-terms")
    ask(skill_name="other-terms", term="halyard").exits_with(3).prints("grants.\"find_word.wasm\".skills")
    shutil.rmtree(folder / "skills/other-terms")


def break_off(folder, edits, message):
    """Makes edits that show in a call, and reverts them."""
    before = {path: (folder / path).read_text() for path, _, _ in edits}
    for path, right, wrong in edits:
        text = (folder / path).read_text()
        assert text.count(right) == 1, "%s has no %r" % (path, right)
        (folder / path).write_text(text.replace(right, wrong))
    build(folder)
    arguments = json.dumps({"skill_name": "sailing-terms", "term": "halyard"})
    result = program.run(folder, "call", "find_word", arguments).exits_with(1).prints_not(*STACKS)
    assert result.stdout == message, result.stdout
    for path, text in before.items():
        (folder / path).write_text(text)


def make(folder, mistake):
    """Makes one mistake, and reverts it."""
    path, right, wrong, code, messages = mistake
    file = folder / path
    text = file.read_text()
    assert text.count(right) >= 1, "%s has no %r" % (path, right)
    component = (folder / "dist/find_word.wasm").read_bytes()
    file.write_text(text.replace(right, wrong, 1))
    program.run(folder, "build").exits_with(code).prints(*messages).prints_not(*STACKS)
    # The previous component is still there.
    assert (folder / "dist/find_word.wasm").read_bytes() == component
    file.write_text(text)
