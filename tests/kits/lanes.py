"""Tests a project in each language: runs `new`, `build`, `test` and a call with the project's own
grant, makes the mistakes of `tests/vectors/mistakes.json` that need a compiler, and runs
`loop.py`, `libraries.py`, `parity.py` and `typed.py`."""
import contextlib
import json
import pathlib
import shutil
import tempfile

import libraries
import loop
import parity
import program
import typed

LANGUAGES = ["rust", "python", "javascript", "c"]

# Mistakes of authors. Those at the build and at a call need a compiler.
MISTAKES = json.loads((program.REPOSITORY / "tests/vectors/mistakes.json").read_text())

# Traps: scripts and modules in the project that must not run in place of a compiler. Each would
# create a file if it ran.
TRAPS = {
    "python": ["build/venv/bin/python", "build/venv/bin/componentize-py", "venv.py",
               "pip/__main__.py", "componentize_py.py"],
    "javascript": ["node_modules/.bin/componentize-js",
                   "node_modules/@bytecodealliance/componentize-js/src/cli.js"],
    "c": ["build/venv/bin/python", "venv.py", "pip/__main__.py", "ziglang/__main__.py",
          "ziglang/zig"],
}

# Texts that no message should contain.
STACKS = ["Stack backtrace", "panicked", "RUST_BACKTRACE", "node:internal", "    at "]


def run(language):
    with tempfile.TemporaryDirectory(prefix="kits-") as base:
        folder = new(pathlib.Path(base), language)
        canary = set_traps(folder, language)
        build(folder)
        assert not canary.exists(), "the build ran `%s`" % canary.read_text()
        test(folder)
        call(folder)
        for mistake in MISTAKES["at the build"]:
            if mistake["project"] == language:
                make(folder, mistake)
        for broken in MISTAKES["at a call"]:
            if broken["project"] == language:
                break_calls(folder, broken)
        # The restored project builds again, with libraries, and with another tool.
        loop.run(folder, language)
        libraries.run(folder, language)
        parity.run(folder, language)
        typed.run(folder, language)


def new(base, language):
    program.run(base, "new", "find-word", "--lang", language).exits_with(0)
    folder = base / "find-word"
    if language == "rust":
        packaged = packaged_sdk(base)
        for part in ["*.rs", "*.wit"]:
            assert files(folder / "sdk", part) == files(packaged, part), part
    return folder


def files(folder, pattern):
    found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob(pattern)}
    assert found, "%s has no %s" % (folder, pattern)
    return found


def packaged_sdk(base):
    """Packages and unpacks the SDK, as cargo's registry would. A project contains the same files, and
    its build compiles them."""
    manifest = program.REPOSITORY / "guest-tools/sdk/Cargo.toml"
    program.shell(base, "cargo package --quiet --no-verify --allow-dirty --manifest-path '%s'"
                  " --target-dir package" % manifest).exits_with(0)
    (archive,) = (base / "package/package").glob("skillhost-guest-*.crate")
    shutil.unpack_archive(archive, base, "gztar")
    return base / archive.stem


def set_traps(folder, language):
    """Sets the traps, and returns the file that they would create."""
    canary = folder.parent / "trap-ran"
    for path in TRAPS.get(language, []):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith((".py", ".js")):
            call = {".py": "open(%r, 'w').write(%r)",
                    ".js": "require('fs').writeFileSync(%r, %r)"}[file.suffix]
            file.write_text(call % (str(canary), path) + "\n")
        else:
            file.write_text("#!/bin/sh\necho '%s' >'%s'\n" % (path, canary))
        file.chmod(0o755)
    # Pretend that the compiler is installed.
    for mark, locks in [("build/venv/installed", ["requirements.txt"]),
                        ("node_modules/.installed", ["package.json", "package-lock.json"])]:
        if (folder / mark).parent.is_dir():
            (folder / mark).write_text("".join((folder / lock).read_text() for lock in locks))
    return canary


def build(folder):
    result = program.run(folder, "build").exits_with(0)
    result.prints("built `", "dist/find_word.wasm`", "  name: find-word\n", "  version: 0.1.0\n",
                  "  description: A tool for agent skills\n")
    assert "  find_word: reads the skill named by `skill_name`\n" in result.stdout, result.stdout
    result.prints_not("REFUSED", "hosts also load")
    listed = json.loads((folder / "dist/find_word.tools.json").read_text())
    assert [tool["name"] for tool in listed["tools"]] == ["find_word"], listed
    result.prints("sha256: " + listed["component"])


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


def break_calls(folder, broken):
    """Makes edits that affect calls, builds once, makes the calls, and reverts the edits."""
    with edited(folder, broken["edits"]):
        build(folder)
        for mistake in broken["calls"]:
            call_wrongly(folder, mistake)


def call_wrongly(folder, mistake):
    arguments = {"skill_name": "sailing-terms", "term": mistake["term"]}
    result = program.run(folder, "call", "find_word", json.dumps(arguments))
    assert result.code in (1, 3), "%s: exit code %d" % (mistake["mistake"], result.code)
    result.prints(*mistake.get("says", [])).prints_not(*STACKS)
    if "answer" in mistake:
        assert result.stdout == mistake["answer"], result.stdout
    # The author reads the trace, and the model does not.
    for line in mistake.get("trace", []):
        assert line not in result.stdout, result.stdout
    if "trace" in mistake:
        cases = folder.parent / "cases-of-mistakes"
        cases.mkdir(exist_ok=True)
        case = {"name": "wrong", "tool": "find_word", "arguments": arguments, "expect": {"text": ""}}
        (cases / "case.json").write_text(json.dumps([case]))
        # `test` finds the skill in the project.
        tested = program.run(folder, "test", "dist/find_word.wasm", "--cases", str(cases))
        tested.exits_with(1).prints(*mistake["trace"])


def make(folder, mistake):
    """Makes one mistake, and reverts it."""
    component = (folder / "dist/find_word.wasm").read_bytes()
    with edited(folder, mistake["edits"]):
        result = program.run(folder, "build").exits_with(mistake["exit"])
        result.prints(*mistake["says"]).prints_not(*STACKS)
    # The previous component is still there.
    assert (folder / "dist/find_word.wasm").read_bytes() == component


@contextlib.contextmanager
def edited(folder, edits):
    """Makes edits, and reverts them."""
    files = {folder / edit["file"] for edit in edits}
    before = {file: file.read_text() for file in files}
    for edit in edits:
        file = folder / edit["file"]
        text = file.read_text()
        assert edit["from"] in text, "%s has no %r" % (edit["file"], edit["from"])
        file.write_text(text.replace(edit["from"], edit["to"], 1))
    yield
    for file, text in before.items():
        file.write_text(text)
