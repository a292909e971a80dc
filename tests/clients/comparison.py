"""Checks that `bench/compare/run` works: a quick run has every row with figures, both sides
of each row give the same answers, and its report can be shown again. The same holds for
two builds, with their verdicts. Speed is not checked."""
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import serving

COMPARE = serving.REPOSITORY / "bench/compare"
sys.path.append(str(COMPARE))
READS = ["4-KB", "64-KiB", "1-MiB"]
ERRORS = ["a-missing-file", "path-traversal", "an-unknown-skill"]
MCP = ["4-KB", "1-MiB", "a-missing-file"]
ROWS = [
    *("in-process-" + case for case in READS + ERRORS),
    *("native-" + case for case in READS),
    *("mcp-sdk-" + case for case in MCP),
    "mcp-ready-4-KB", "mcp-sandboxed-4-KB", "mcp-called-4-KB", "mcp-ready-1-MiB",
    *("mcp-bare-" + case for case in MCP),
    "scale-skills", "scale-threads", "scale-processes", "scale-exchange", "scale-components",
    "process-call", "process-first-result", "process-first-result-python", "process-memory",
]
BY_ROUNDS = ["build-bare-4-KB", "build-bare-1-MiB", "build-sdk-4-KB", "build-sdk-1-MiB",
             "build-call", "build-first-result"]
BUILDS = ["build-in-process-" + case for case in READS + ERRORS] + BY_ROUNDS + ["build-memory"]


def compare(*words):
    done = subprocess.run([sys.executable, str(COMPARE / "compare.py"), *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          timeout=600)
    # As root, as in CI, each server warns that root weakens the process sandbox. On a slow
    # machine it reports that it compiles.
    expected = "running as root", "not found in the cache", "skillhost: compiling took "
    errors = [line for line in done.stderr.splitlines(True)
              if not any(part in line for part in expected)]
    return done.returncode, done.stdout, "".join(errors)


def check(folder):
    stem = str(pathlib.Path(folder) / "comparison")
    programs = str(pathlib.Path(serving.SKILLHOST).parent)
    code, out, errors = compare("--quick", "--output", "json", "--to", stem,
                                "--cache", str(pathlib.Path(folder) / "cache"),
                                "--programs", programs)
    assert code == 0, errors
    assert errors == "", errors
    rows = json.loads(out)["rows"]
    assert [row["id"] for row in rows] == ROWS, [row["id"] for row in rows]
    for row in rows:
        assert row["value"] > 0 and (row["met"] is None) == (row["target"] is None), row
        sides = [row[side] for side in ("ours", "theirs") if row.get(side)]
        assert all(side["samples"] > 0 for side in sides), row
    written = pathlib.Path(stem + ".json").read_text(encoding="utf-8")
    assert written == out
    picture = pathlib.Path(stem + ".svg").read_text(encoding="utf-8")
    xml.etree.ElementTree.fromstring(picture)
    code, table, errors = compare("--from", stem + ".json", "--output", "table")
    assert code == 0 and all(row["what"] in table for row in rows), (table, errors)
    # Only `--check` makes the exit code depend on the targets.
    met = all(row["met"] is not False for row in rows)
    assert compare("--from", stem + ".json", "--check")[0] == (0 if met else 1)
    code, out, errors = compare("--quick", "--programs", folder)
    assert code == 2 and out == "" and "cargo build --release" in errors, (code, errors)
    return "%d rows, each with figures" % len(rows)


def check_builds(folder):
    """A build against itself, with a limit that nothing can meet."""
    stem = str(pathlib.Path(folder) / "builds")
    programs = str(pathlib.Path(serving.SKILLHOST).parent)
    code, out, errors = compare("--quick", "--programs", programs, "--against", programs,
                                "--limit", "0.01", "--check", "--output", "json", "--to", stem,
                                "--cache", str(pathlib.Path(folder) / "cache"))
    assert code == 1 and errors == "", (code, errors)
    rows = json.loads(out)["rows"]
    assert [row["id"] for row in rows] == BUILDS, [row["id"] for row in rows]
    for row in rows:
        low, high = row["rounds"]["low"], row["rounds"]["high"]
        assert 0 < low <= high and row["value"] > 0, row
        assert row["met"] == (round(low, 2) <= 1 if row["id"] in BY_ROUNDS else False), row
    code, table, errors = compare("--from", stem + ".json", "--output", "table")
    assert code == 0 and all(row["what"] in table for row in rows), (table, errors)
    code, out, errors = compare("--quick", "--programs", programs, "--against", folder)
    assert code == 2 and out == "" and folder in errors, (code, errors)
    return "%d rows of two builds, each with a verdict" % len(rows)


def check_verdicts():
    import builds
    import figures
    turns = []
    figures.alternating([lambda _: turns.append("A") or [1], lambda _: turns.append("B") or [1]],
                        2, 1, lambda _: None)
    # One warm-up each, and then they take turns at being first.
    assert "".join(turns) == "AB" "ABAB" "BABA", turns
    for ours, met in [(90, True), (100, True), (110, False)]:
        row = figures.ratio("id", "group", "what", builds.NAMES, [[[ours]] * 3, [[100]] * 3])
        assert builds.spread(row)["met"] == met, row
    # Times that go up and down are no difference.
    taken = [[[80], [120], [120]], [[100]] * 3]
    assert builds.spread(figures.ratio("id", "group", "what", builds.NAMES, taken))["met"]
    return "turns and verdicts"


def run():
    wrong = []
    with tempfile.TemporaryDirectory(prefix="skillhost-clients-") as folder:
        for part in (check_verdicts, lambda: check(folder), lambda: check_builds(folder)):
            try:
                print("  comparison: %s" % part())
            except (AssertionError, subprocess.SubprocessError) as error:
                wrong.append("comparison: %s" % error)
    return wrong
