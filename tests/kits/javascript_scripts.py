"""Builds the runner for JavaScript and runs the scripts of tests/scripts-javascript. Those of
`cases.json` run in the sandbox and natively, with the same result; those of `hostile.json` run only
in the sandbox."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import network
import program
from session import Session, quotes_names

RUNNER = program.REPOSITORY / "guest-tools/runners/javascript"
CASES = program.REPOSITORY / "tests/scripts-javascript"
SKILL = "forty-scripts"
TOOL = "run_skill_javascript"
GRANT = """
skills = ["skills"]
tools = ["tools"]
compile_time = "5m"

[grants."run_skill_javascript.wasm"]
skills = ["*"]
scripts = ["scripts/**"]
%s
limits.time = "%s"
limits.memory = "128MiB"
"""
# The time limit of hostile scripts that never end. Other scripts have a minute, because the machine
# may be busy.
SHORT = "2s"
WRITABLE = 'view = "copy-on-write"'


def run():
    start = time.monotonic()
    build = subprocess.run([RUNNER / "build.sh"], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                           timeout=program.TIME_LIMIT, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    component = RUNNER / "dist" / (TOOL + ".wasm")
    print("  the runner: built in %.0f s, %.1f MB" % (
        time.monotonic() - start, component.stat().st_size / 1e6), flush=True)
    with tempfile.TemporaryDirectory(prefix="kits-") as base:
        base = pathlib.Path(base)
        shutil.copytree(CASES / "skill", base / "skills" / SKILL)
        (base / "tools").mkdir()
        shutil.copy(component, base / "tools")
        (base / "skillhost.toml").write_text(GRANT % (WRITABLE, "60s"))
        (base / "short.toml").write_text(GRANT % (WRITABLE, SHORT))
        (base / "read-only.toml").write_text(GRANT % ("", "60s"))
        before = digests(base)
        compare(base)
        requests(base)
        with Session(base, "--config", "skillhost.toml") as session:
            arguments(session)
            quotes_names(session, TOOL, base / "skills", ".js")
            inputs(session)
            with Session(base, "--config", "short.toml") as short:
                endure(base, session, short)
        with Session(base, "--config", "read-only.toml") as session:
            text, failed = call(session, "scripts/templates.js")
            assert not failed and "EROFS" in text and "view = \"copy-on-write\"" in text, text
        assert digests(base) == before


def call(session, script, **more):
    return session.call(TOOL, {"skill_name": SKILL, "script": script, **more})


def compare(base):
    cases = json.loads((CASES / "cases.json").read_text())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in pool.map(lambda case: compare_one(base, case), cases):
            pass
    scripts = len({case["script"] for case in cases})
    assert scripts >= 40, scripts
    print("  %d scripts in %d calls end as natively" % (scripts, len(cases)), flush=True)


def requests(base):
    """Compares the scripts that send requests, and runs one without a grant."""
    scripts = sorted(path.name for path in (CASES / "skill/scripts/network").iterdir())
    # The sandbox alone denies requests.
    scripts.remove("denied.mjs")
    with tempfile.TemporaryDirectory(prefix="network-") as folder, network.servers(pathlib.Path(folder)) as ports:
        certificate = pathlib.Path(folder, "ca.pem")
        shutil.copy(certificate, base)
        rules = 'network = ["http://localhost:%(port)d/granted/*", "https://localhost:%(tls_port)d/*"]\n' % ports
        # The grant has more requests than a call has by default.
        granted = GRANT % (WRITABLE + "\n" + rules + "limits.requests = 100", "60s")
        (base / "network.toml").write_text(granted + '\n[network]\nca_file = "ca.pem"\n')
        addresses = ["http://localhost:%(port)d" % ports, "https://localhost:%(tls_port)d" % ports]
        for name in scripts:
            case = {"script": "scripts/network/" + name, "args": addresses}
            compare_one(base, case, "network.toml", {"NODE_EXTRA_CA_CERTS": str(certificate)})
        for configuration, address, reason in [
            ("skillhost.toml", addresses[0] + "/granted/plain", "network access is not granted to this tool; an operator can allow %s in" % addresses[0]),
            ("network.toml", addresses[0] + "/denied", "is not granted to this tool; granted are: http://localhost:"),
            ("network.toml", "https://127.0.0.1:%(tls_port)d/" % ports, "network access to https://127.0.0.1:"),
        ]:
            asked = {"skill_name": SKILL, "script": "scripts/network/denied.mjs", "args": [address]}
            text = program.run(base, "--config", configuration, "call", TOOL, json.dumps(asked)).exits_with(0).stdout
            assert text.startswith("TypeError fetch failed EACCES\n") and "[exit code 1]" in text, text
            # In the error's cause, and as a note.
            assert text.count(reason) >= 2, text
    for name in ["ca.pem", "network.toml"]:
        (base / name).unlink()
    print("  %d scripts that send requests end as natively" % len(scripts), flush=True)


def compare_one(base, case, configuration="skillhost.toml", environment=None):
    script, args, stdin = case["script"], case.get("args", []), case.get("stdin", "")
    asked = {"skill_name": SKILL, "script": script, "args": args, "stdin": stdin}
    # The command line prints the record, with separate streams.
    result = program.run(base, "--config", configuration, "call", TOOL, json.dumps(asked), "--output", "json").exits_with(0)
    found = json.loads(result.stdout)
    with tempfile.TemporaryDirectory(prefix="native-") as folder:
        copy = pathlib.Path(folder, SKILL)
        shutil.copytree(base / "skills" / SKILL, copy)
        old = digests(copy)
        native = subprocess.run(["node", script, *args], cwd=copy, input=stdin, capture_output=True,
                                encoding="utf-8", check=False, timeout=60,
                                env={"PATH": os.environ["PATH"], "HOME": str(copy), "TMPDIR": folder,
                                     **(environment or {})})
        new = digests(copy)
    what = "%s %s: " % (script, args)
    assert found["exit_code"] == native.returncode, what + "%s\n%s" % (native.returncode, found)
    assert found["stdout"] == native.stdout, what + "\nin the sandbox:\n%s\nnatively:\n%s" % (
        found["stdout"], native.stdout)
    assert bool(found["stderr"]) == bool(native.stderr), what + "%s\n%s" % (found["stderr"], native.stderr)
    changed = {path: digest for path, digest in new.items() if old.get(path) != digest}
    told = {file["path"]: file["sha256"] for file in found.get("files", [])}
    assert told == changed, what + "%s\n%s" % (told, changed)
    assert found.get("removed", []) == sorted(set(old) - set(new)), what + str(found)


def digests(folder):
    """Returns the digest of each file in a folder."""
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file()}


def arguments(session):
    script = "scripts/stdin_sync.js"
    for more, message in [
        ({"script": "../other/x.js"}, "Path traversal detected"),
        ({"script": "/etc/x.js"}, "Path traversal detected"),
        ({"script": "scripts/none.js"}, "scripts/none.js: not found. The skill has: "),
        ({"script": "SKILL.md"}, "not a JavaScript file"),
        ({"script": "node_modules/tiny-words/lib/shout.cjs"}, "does not allow this script"),
        ({"files": [{"path": "../x", "text": ""}]}, "Path traversal detected"),
        ({"files": [{"path": "x"}]}, "give either text or base64"),
        ({"files": [{"path": "x", "base64": "?"}]}, "not valid base64"),
        ({"files": [{"path": "SKILL.md/x", "text": ""}]}, "cannot write `SKILL.md/x`"),
    ]:
        text, failed = session.call(TOOL, {"skill_name": SKILL, "script": script, **more})
        assert failed and message in text, text
    given = [{"path": "scripts/lib/folder/other.json", "text": '{"value": "given"}'},
             {"path": "data/config.json", "base64": "eyJuYW1lIjogImdpdmVuIHRvbyJ9"}]
    text, failed = call(session, "scripts/common_modules.js", files=given)
    assert not failed and "other: 'given' } given too" in text, text


def inputs(session):
    """Checks that code in a call's arguments is data: no import finds it, and the skill's code runs."""
    evil = "console.log('from the call')"
    for case in json.loads((CASES / "inputs.json").read_text()):
        given = [{"path": path, "text": text or evil} for path, text in case["files"].items()]
        text, failed = call(session, case["script"], files=given, args=case.get("args", []))
        assert not failed and ("[exit code %d" % case["exit_code"] in text) == (case["exit_code"] != 0), "%s\n%s" % (case, text)
        for part in case["text"]:
            assert part in text, "%s\nno %r in\n%s" % (case, part, text)
        for part in [*case.get("without", []), "from the call"]:
            assert part not in text, "%s\n%s" % (case, text)


def endure(base, session, short):
    """Runs hostile scripts. Those that never end run in the session `short`, whose calls have little
    time. Each script ends as expected, and the next call works."""
    cases = json.loads((CASES / "hostile.json").read_text())
    script = base / "skills" / SKILL / "scripts/hostile.js"
    before = script.read_text()
    for case in cases:
        # Written to disk, because code in a call's arguments never runs.
        script.write_text(case["source"])
        its_session = short if "longer than" in case.get("stopped", "") else session
        text, failed = call(its_session, "scripts/hostile.js")
        if "stopped" in case:
            assert failed and case["stopped"] in text, "%s\n%s" % (case["source"], text)
        else:
            code = case["exit_code"]
            assert not failed and ("[exit code %d" % code in text) == (code != 0), "%s\n%s" % (case["source"], text)
        for part in case.get("text", []):
            assert part in text, "%s\nno %r in\n%s" % (case["source"], part, text[-2000:])
        assert len(text) < 300_000, case["source"]
        text, failed = call(its_session, "scripts/stdin_sync.js", stdin="a b")
        assert not failed and text.startswith("2 words 3 bytes\n"), "after %s\n%s" % (case["source"], text)
    script.write_text(before)
    print("  %d hostile scripts end as they should" % len(cases), flush=True)
