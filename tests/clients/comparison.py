"""That `bench/compare/run` runs: a quick run has every row, each with figures, the two
sides of each were found to give the same answers, and what it wrote can be shown again.
How fast anything was is not looked at here."""
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import serving

COMPARE = serving.REPOSITORY / "bench/compare"
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


def compare(*words):
    done = subprocess.run([sys.executable, str(COMPARE / "compare.py"), *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          timeout=600)
    return done.returncode, done.stdout, done.stderr


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
    # What decides the exit code is the targets, and only where that is asked for.
    met = all(row["met"] is not False for row in rows)
    assert compare("--from", stem + ".json", "--check")[0] == (0 if met else 1)
    code, out, errors = compare("--quick", "--programs", folder)
    assert code == 2 and out == "" and "cargo build --release" in errors, (code, errors)
    return "%d rows, each with figures" % len(rows)


def run():
    with tempfile.TemporaryDirectory(prefix="skillhost-clients-") as folder:
        try:
            print("  comparison: %s" % check(folder))
        except (AssertionError, subprocess.SubprocessError) as error:
            return ["comparison: %s" % error]
    return []
