"""Builds the examples in guest-tools/examples that are made from a kit, with the commands of their
READMEs, runs their cases, and calls them from the command line and over MCP."""
import dataclasses
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import typing

import document
import program
from session import Session

SOURCES = program.REPOSITORY / "guest-tools/examples"
# The folder that the READMEs name. Some compilers are installed for a path, so a fixed path reuses
# those of the previous run.
BUILT = program.REPOSITORY / "target/examples"


@dataclasses.dataclass
class Example:
    """A tool, and calls on its skill."""

    tool: str
    skill: str
    # Arguments besides `skill_name`, with the complete text of the answer.
    answers: list
    # The same for failures.
    failures: list
    # A further check, which gets the skill's folder and a function that calls tools.
    also: typing.Callable = lambda folder, call: None


def large_table(folder, call):
    """Checks that the answer for a table beyond the search limit says so."""
    row = "%d,Name of %d," + "x" * 50 + "\n"
    with open(folder / "large.csv", "w") as file:
        file.write("id,name,text\n")
        file.writelines(row % (number, number) for number in range(300_000))
    text, failed = call("table_lookup", file_path="large.csv", values=["7", "299999"],
                        columns=["name"])
    assert not failed, text
    assert text.startswith("large.csv, line 9\nname: Name of 7\n\n1 row; "), text
    for part in ["Only the beginning of large.csv was searched", "has no row with '299999'"]:
        assert part in text, text


def sections_are_read(folder, call):
    """Checks that read_skill_file returns the sections at the offsets of an outline."""
    lines = (folder / "reference.md").read_text().split("\n")
    text, failed = call("outline", path="reference.md")
    assert not failed, text
    rows = [line.split(maxsplit=2) for line in text.split("\n\n")[0].splitlines()[1:]]
    assert len(rows) == 28, text
    for offset, limit, heading in rows:
        first, count = int(offset), int(limit)
        section, failed = call("read_skill_file", path="reference.md", offset=first, limit=count)
        assert not failed and section == "\n".join(lines[first - 1:first - 1 + count]), section
        assert heading.lstrip("# ") in section.split("\n")[0].replace("`", ""), section


def changes_are_seen(folder, call):
    """Checks the output of sha256sum, and that changed files are reported."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*")
                   if path.is_file())
    assert len(files) >= 8, files
    listed = subprocess.run(["sha256sum", "--", *files], cwd=folder, check=True,
                            capture_output=True, encoding="utf-8").stdout
    (folder / "LIST").write_text(listed)
    text, failed = call("checksum", sums_file="LIST")
    assert not failed and text == "%d of %d files match" % (len(files), len(files)), text
    with open(folder / files[0], "ab") as file:
        file.write(b"\0")
    (folder / files[1]).unlink()
    text, failed = call("checksum", sums_file="LIST")
    differs, missing, summary = text.split("\n")
    assert differs.startswith("differs: %s: expected %s, found " % (files[0], listed[:64])), text
    assert missing == "missing: " + files[1], text
    assert summary.endswith("; 1 differs; 1 missing"), text


EXAMPLES = {
    "table-lookup": Example(
        "table_lookup", "units-of-measure",
        [
            ({"file_path": "units.csv", "values": ["nmi"], "columns": ["name", "factor"]},
             "units.csv, line 9\nname: nautical mile\nfactor: 1852\n\n1 row; 104 searched"),
            ({"file_path": "prefixes.csv", "column": "symbol", "values": ["k"], "limit": None},
             "prefixes.csv, line 11\nprefix: kilo\nsymbol: k\nfactor: 1e3\nsince: 1960\n\n"
             "1 row; 24 searched"),
        ],
        [
            ({"file_path": "units.csv", "column": "unit", "values": ["m"]},
             "units.csv has no column 'unit'. It has: symbol, name, quantity, si_unit, factor, "
             "exact, system, note."),
        ],
        large_table),
    "outline": Example(
        "outline", "shell-scripts",
        [
            ({}, "offset  limit  heading\n     6     17  # Shell scripts\n"
                 "    12      6  ## When you write a script\n"
                 "    18      5  ## When you review one\n\n3 headings; SKILL.md has 22 lines"),
        ],
        [
            ({"path": "guide.md"}, "guide.md: not found"),
        ],
        sections_are_read),
    "checksum": Example(
        "checksum", "file-integrity",
        [
            ({"sums_file": "vectors/SHA256SUMS"}, "5 of 5 files match"),
            ({"path": "vectors/nine_digits.txt", "algorithm": "crc32"},
             "cbf43926  vectors/nine_digits.txt"),
        ],
        [
            ({"path": "vectors", "expected": "cbf43926"},
             "expected is the digest of one file, and vectors is a folder; for several files, "
             "name a list of digests with sums_file"),
        ],
        changes_are_seen),
}


def run():
    for name, example in EXAMPLES.items():
        start = time.monotonic()
        project, component = build(name, example)
        print("%s: made and built in %.0f s, %.1f MB" % (
            name, time.monotonic() - start, component.stat().st_size / 1e6), flush=True)
        test(project, component)
        with tempfile.TemporaryDirectory(prefix="kits-") as base:
            operate(pathlib.Path(base), project, component, example)


def build(name, example):
    """Follows the README: creates a project, copies the example's files into it, and builds."""
    project = BUILT / name
    shutil.rmtree(project, ignore_errors=True)
    result = document.follow((SOURCES / name / "README.md").read_text(), program.REPOSITORY)
    assert "  %s: reads the skill named by " % example.tool in result.stdout, result.stdout
    result.prints_not("REFUSED", "hosts also load")
    return project, project / ("dist/%s.wasm" % example.tool)


def test(project, component):
    # The project's own configuration and skills are valid.
    program.run(project, "check").exits_with(0)
    result = program.run(project, "test", str(component), "--cases", "cases",
                       "--output", "json")
    assert result.stdout, result.stderr
    checks = json.loads(result.stdout)["checks"]
    failed = [check for check in checks if check["outcome"] != "passed"]
    assert result.code == 0 and not failed, failed
    written = [json.loads(file.read_text()) for file in project.glob("cases/*.json")]
    cases = sum(len(cases) if isinstance(cases, list) else 1 for cases in written)
    assert cases > 0 and cases == sum(check["id"] == "case" for check in checks), cases
    print("  %d checks pass, %d of them its cases" % (len(checks), cases), flush=True)


def operate(base, project, component, example):
    """Calls the tool with an operator's configuration that lets it read one skill."""
    shutil.copytree(project / "skills", base / "skills")
    (base / "tools").mkdir()
    shutil.copy(component, base / "tools")
    shutil.copytree(base / "skills" / example.skill, base / "skills/not-granted")
    configuration = base / "skillhost.toml"
    configuration.write_text('skills = ["skills"]\ntools = ["tools"]\ncompile_time = "5m"\n')

    def call(skill, arguments):
        arguments = json.dumps({"skill_name": skill, **arguments})
        return program.run(base, "call", example.tool, arguments)

    grant = "grants.\"%s.wasm\".skills" % example.tool
    (first, _), *_ = example.answers
    call(example.skill, first).exits_with(3).prints(grant)
    with open(configuration, "a") as file:
        file.write("\n[grants.\"%s.wasm\"]\nskills = [%s]\n" % (example.tool, json.dumps(example.skill)))
    call("not-granted", first).exits_with(3).prints(grant)
    with Session(base, "--config", "skillhost.toml") as session:
        listed = {tool["name"] for tool in session.ask("tools/list")["tools"]}
        assert {example.tool, "read_skill_file"} <= listed, listed
        for expected, code in [(example.answers, 0), (example.failures, 1)]:
            for arguments, text in expected:
                result = call(example.skill, arguments).exits_with(code).stdout
                assert result == text, "expected %s, got %s" % (text, result)
                answer = session.call(example.tool, {"skill_name": example.skill, **arguments})
                assert answer == (text, code == 1), answer
        text, failed = session.call(example.tool, {"skill_name": "not-granted", **first})
        assert failed, text
        example.also(base / "skills" / example.skill, lambda tool, **arguments: session.call(
            tool, {"skill_name": example.skill, **arguments}))
