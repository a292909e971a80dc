"""Builds the tool `parity` in a project, and checks it with the table of calls and answers that all
languages share."""
import json
import os
import shutil

import network
import program

HERE = program.REPOSITORY / "tests/kits/parity"
SOURCES = {"rust": ("lib.rs", "src/lib.rs"), "python": ("tool.py", "tool.py"),
           "javascript": ("tool.js", "src/tool.js"), "c": ("tool.c", "src/tool.c")}
# The languages whose tool sends requests.
WITH_REQUESTS = ["rust", "python", "javascript", "c"]
GRANT = """
[grants."parity.wasm"]
skills = ["parity-files"]
environment = { UNIT = "a knot" }
"""


def run(folder, language):
    source, place = SOURCES[language]
    shutil.copy(HERE / source, folder / place)
    shutil.copy(HERE / "cases.json", folder / "parity.json")
    for old in (folder / "dist").glob("*.wasm"):
        old.unlink()
    skill = folder / "skills/parity-files"
    shutil.copytree(HERE / "skills/parity-files", skill)
    complete(skill)
    configuration = folder / "skillhost.toml"
    settings, _ = configuration.read_text().split("[grants")
    configuration.write_text(settings + GRANT)
    if language in WITH_REQUESTS:
        (folder / "needs.toml").write_text(network.NEEDS)
    if language == "rust":
        manifest = folder / "Cargo.toml"
        sdk = '{ path = "sdk" }'
        assert sdk in manifest.read_text()
        manifest.write_text(manifest.read_text().replace(sdk, '{ path = "sdk", features = ["http"] }'))
    program.run(folder, "build").exits_with(0).prints("built `", "dist/parity.wasm`")
    (folder / "table").mkdir()
    (folder / "parity.json").rename(folder / "table/parity.json")
    result = program.run(folder, "test", "dist/parity.wasm", "--cases", "table", "--output", "json")
    checks = json.loads(result.stdout)["checks"]
    failed = [check for check in checks if check["outcome"] == "failed"]
    assert result.code == 0 and not failed, failed
    cases = sum(check["id"] == "case" for check in checks)
    assert cases == len(json.loads((HERE / "cases.json").read_text())), cases

    def call(action, path):
        arguments = {"skill_name": "parity-files", "action": action, "path": path}
        return program.run(folder, "--log", "info", "call", "parity", json.dumps(arguments))

    # Variables and logs, which a case cannot set or see.
    result = call("variable", "UNIT").exits_with(0)
    assert result.stdout == "a knot", result.stdout
    if language == "c":
        # Numbers in the notations of JSON.
        for number, integer in [("1e16", 10 ** 16), ("-1.5e1", -15), ("9223372036854775807", 2 ** 63 - 1),
                                ("1e19", -1), ("9223372036854775808", -1), ("1.5", -1), ("1e-1", -1)]:
            arguments = '{"skill_name": "parity-files", "action": "integer", "number": %s}' % number
            result = program.run(folder, "call", "parity", arguments).exits_with(0)
            assert result.stdout == str(integer), (number, result.stdout)
    call("log", "a line of 20 letters").exits_with(0).prints("guest: a line of 20 letters")
    if language in WITH_REQUESTS:
        network.parity(folder, language, settings + GRANT)
    print("  %d calls as in the other languages" % cases, flush=True)


def complete(skill):
    """Adds files that a repository cannot contain."""
    (skill / "empty.txt").touch()
    (skill / "large.txt").write_text("x" * 65)
    for name, target in [("to-one", "docs/one.txt"), ("to-docs", "docs"), ("to-itself", "to-itself"),
                         ("to-outside", "/etc/passwd")]:
        (skill / name).symlink_to(target)
    # More folders than a call may open at a time.
    for number in range(300):
        (skill / "docs/deep" / str(number)).mkdir()
    (skill / "more").mkdir()
    for number in range(13):
        (skill / "more" / str(number)).touch()
    (skill / "odd").mkdir()
    open(os.fsencode(skill / "odd") + b"/\xff", "w").close()
