"""The official conformance suite. The fixture server and the program run all scenarios of the newest
revision, the program also the scenarios of skills, and the fixture server those of the previous
revision. A scenario passes if every check passes; a check that is skipped or that warns does not
pass. exceptions.json has each scenario that does not pass, with the reason. No scenario in
exceptions.json may pass."""
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import serving

REVISION = "2026-07-28"
BEFORE = "2025-11-25"
SKILLS = ["sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"]
HERE = Path(__file__).parent


def suite(url, *arguments):
    """Returns the checks of each scenario that ran."""
    program = serving.NODE_MODULES / "@modelcontextprotocol/conformance/dist/index.js"
    with tempfile.TemporaryDirectory() as results:
        command = [serving.NODE, str(program), "server", "--url", url, "-o", results, *arguments]
        # Not by the exit code: some scenarios are not scored.
        subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        checks = {}
        for folder in sorted(Path(results).iterdir()):
            name = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT.*", folder.name).group(1)
            checks[name] = json.loads((folder / "checks.json").read_text())
        return checks


def required(revision):
    """Returns the scenarios that the suite lists, to notice one that did not run."""
    program = serving.NODE_MODULES / "@modelcontextprotocol/conformance/dist/index.js"
    command = [serving.NODE, str(program), "list", "--requirements", revision]
    listing = subprocess.check_output(command, encoding="utf-8")
    of_servers = listing.split("Server scenarios")[1].split("Client scenarios")[0]
    names = re.findall(r"^ *- (\S+)$", of_servers, re.MULTILINE)
    return set(names) | set(re.findall(r"^ *- (\S+) \[server\]$", listing, re.MULTILINE))


def judge(server, checks, expected):
    """Returns the errors beyond the exceptions of this server."""
    listed = {}
    for exception in json.loads((HERE / "exceptions.json").read_text())[server]:
        for name in exception["scenarios"]:
            listed[name] = exception["reason"]
    wrong = ["%s: the scenario %s did not run" % (server, name)
             for name in sorted(expected - set(checks))]
    passed = 0
    for scenario, results in sorted(checks.items()):
        verdicts = {}
        for result in results:
            if result["status"] != "INFO":
                good = result["status"] == "SUCCESS"
                verdicts[result["id"]] = verdicts.get(result["id"], True) and good
        bad = {check for check, good in verdicts.items() if not good}
        named = {check for check in verdicts if "%s:%s" % (scenario, check) in listed}
        if scenario in listed:
            if verdicts and not bad:
                wrong.append("%s: %s is an exception, and passes" % (server, scenario))
            print("  %-9s listed %s: %s" % (server, scenario, listed[scenario]))
            continue
        for check in sorted(named - bad):
            wrong.append("%s: %s:%s is an exception, and passes" % (server, scenario, check))
        for check in sorted(bad - named):
            messages = [str(result.get("errorMessage"))[:500] for result in results
                        if result["id"] == check and result["status"] not in ("SUCCESS", "INFO")]
            wrong.append("%s: %s:%s: %s" % (server, scenario, check, messages[0]))
        for check in sorted(named & bad):
            print("  %-9s listed %s:%s: %s" % (
                server, scenario, check, listed["%s:%s" % (scenario, check)]))
        if not verdicts:
            wrong.append("%s: %s checked nothing" % (server, scenario))
        if verdicts and not bad - named:
            passed += 1
    for name in sorted(set(name.split(":")[0] for name in listed) - set(checks)):
        wrong.append("%s: %s is an exception, and did not run" % (server, name))
    print("  %-9s %d of %d scenarios pass" % (server, passed, len(checks)))
    return wrong


def run():
    expected = required(REVISION)
    with serving.listening([os.environ["FIXTURE"]]) as url:
        wrong = judge("fixture", suite(url, "--requirements", REVISION), expected)
        before = suite(url, "--requirements", BEFORE)
        wrong += judge("fixture " + BEFORE, before, required(BEFORE))
    skills = str(serving.REPOSITORY / "skills")
    command = [serving.SKILLHOST, "serve", "--http", "127.0.0.1:0", "--skills", skills]
    with tempfile.TemporaryDirectory() as empty, serving.listening(command, empty) as url:
        checks = suite(url, "--requirements", REVISION)
        for scenario in SKILLS:
            checks.update(suite(url, "--scenario", scenario))
        wrong += judge("skillhost", checks, expected | set(SKILLS))
    return wrong
