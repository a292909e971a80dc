//! Cases that a tool's author writes, and the reports of a run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use skillhost::SkillsRoot;

use super::{conformance, why};
use crate::support::process::output;
use crate::support::program::{Program, Run};
use crate::support::{block_on, guests};

/// Makes a folder with `count_lines.wasm`, a skill, and cases.
fn project(cases: &[(&str, &str)]) -> Program {
    let program = Program::new();
    let component = guests().join("count_lines.wasm");
    fs::copy(component, program.folder.path().join("count_lines.wasm")).unwrap();
    program.write("skills/a/two.txt", "one\ntwo\n");
    for (name, case) in cases {
        program.write(&format!("cases/{name}"), case);
    }
    program
}

fn run_cases(program: &Program, more: &[&str]) -> Run {
    let test = ["test", "count_lines.wasm", "--cases", "cases"];
    program.run(&[&test, more].concat())
}

/// A case that passes.
const PASSING: &str = r#"{"tool": "count_lines", "arguments": {"skill_name": "a", "path": "two.txt"},
 "expect": {"text": "2 lines in two.txt of a"}}"#;

#[test]
fn case_passes_or_reports_the_difference() {
    let cases = format!(
        r#"[{PASSING},
        {{"name": "wrong", "tool": "count_lines", "arguments": {{"skill_name": "a", "path": "two.txt"}},
          "expect": {{"contains": "3 lines"}}}},
        {{"name": "none", "tool": "count_lines", "arguments": {{"skill_name": "a", "path": "x"}},
          "expect": {{"error": {{"kind": "not-found"}}}}}},
        {{"name": "no path", "tool": "count_lines", "arguments": {{"skill_name": "a"}},
          "expect": {{"error": {{"kind": "arguments", "contains": "'path'"}}}}}},
        {{"tool": "count_lines", "arguments": {{"skill_name": "b", "path": "x"}},
          "expect": {{"record": {{"text": ""}}}}}}]"#
    );
    let program = project(&[
        ("b.json", &cases),
        ("a.json", PASSING),
        ("notes.txt", "no case"),
    ]);
    let report = block_on(
        conformance(program.folder.path().join("count_lines.wasm"))
            .cases(program.folder.path().join("cases"))
            .skills_root(SkillsRoot::new(program.folder.path().join("skills")))
            .run(),
    )
    .unwrap();
    let cases: Vec<(&str, &str)> = report
        .checks
        .iter()
        .filter(|check| check.id == "case")
        .map(|check| (check.case.as_deref().unwrap(), why(check)))
        .collect();
    assert_eq!(
        cases,
        [
            ("a", ""),
            ("b", ""),
            (
                "wrong",
                r#"expected "3 lines" in the text, but it was "2 lines in two.txt of a""#
            ),
            ("none", ""),
            ("no path", ""),
            (
                "b#5",
                "expected an answer, but the call ended with `not-found`: \"There is no skill \
                 of that name. list_skills lists all skills.\""
            ),
        ]
    );
    let run = run_cases(&program, &[]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains("\n  FAIL  case "), "{run:?}");
    let fix = "no folder of skills has `b`: name one with `--skills`";
    assert!(run.stdout.contains(fix), "{run:?}");
}

#[test]
fn update_rewrites_only_failing_cases() {
    let program = project(&[
        ("right.json", PASSING),
        (
            "wrong.json",
            r#"[
              {"expect": {"text": "?"}, "name": "text", "tool": "count_lines",
               "arguments": {"skill_name": "a", "path": "two.txt"}},
              {"tool": "count_lines", "arguments": {"skill_name": "a", "path": "../x"}}
            ]"#,
        ),
    ]);
    let unfinished = run_cases(&program, &[]);
    assert_eq!(unfinished.code, 4, "{unfinished:?}");
    assert!(
        unfinished
            .stderr
            .contains("`cases/wrong.json`, line 4: the case has no `expect`"),
        "{unfinished:?}"
    );
    let update = run_cases(&program, &["--update"]);
    assert_eq!(update.code, 0, "{update:?}");
    assert_eq!(update.stderr, "skillhost: wrote `cases/wrong.json`\n");
    let read = |name: &str| fs::read_to_string(program.folder.path().join(name)).unwrap();
    assert_eq!(read("cases/right.json"), PASSING);
    let written = read("cases/wrong.json");
    let expected = json!([
        {"expect": {"text": "2 lines in two.txt of a"}, "name": "text", "tool": "count_lines",
         "arguments": {"skill_name": "a", "path": "two.txt"}},
        {"tool": "count_lines", "arguments": {"skill_name": "a", "path": "../x"},
         "expect": {"error": {"kind": "refused", "message":
            "Path traversal detected: cannot access files outside skill folder"}}},
    ]);
    assert_eq!(written, format!("{expected:#}\n"));
    let again = run_cases(&program, &["--update"]);
    assert_eq!((again.code, &*again.stderr), (0, ""), "{again:?}");
    assert_eq!(run_cases(&program, &[]).code, 0);
}

#[test]
fn update_finds_the_cases_of_a_project() {
    let unfinished =
        r#"{"tool": "count_lines", "arguments": {"skill_name": "a", "path": "two.txt"}}"#;
    let program = project(&[("new.json", unfinished)]);
    let at = |path: &str| program.folder.path().join(path);
    let run = program.run(&["test", "count_lines.wasm", "--update"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.stderr.contains("name their folder with `--cases`"),
        "{run:?}"
    );
    fs::create_dir(at("dist")).unwrap();
    fs::rename(at("count_lines.wasm"), at("dist/count_lines.wasm")).unwrap();
    let run = program.run(&["test", "--update"]);
    assert_eq!(
        (run.code, &*run.stderr),
        (0, "skillhost: wrote `cases/new.json`\n"),
        "{run:?}"
    );
    let written = fs::read_to_string(at("cases/new.json")).unwrap();
    assert!(written.contains("2 lines in two.txt of a"), "{written}");
}

#[test]
fn neither_passes_nor_rewrites_case_with_random_answer() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let case = r#"{"tool": "faulty_random", "arguments": {"skill_name": "a", "path": "SKILL.md"}}"#;
    program.write("cases/random.json", case);
    let run = conformance(guests().join("faulty.wasm"))
        .cases(program.folder.path().join("cases"))
        .skills_root(SkillsRoot::new(program.folder.path().join("skills")))
        .update(true)
        .run();
    let report = block_on(run).unwrap();
    let failed = report.failed().find(|check| check.id == "case").unwrap();
    assert!(why(failed).starts_with("first it answered "), "{failed:?}");
    assert_eq!(report.written, [] as [PathBuf; 0]);
    let kept = fs::read_to_string(program.folder.path().join("cases/random.json"));
    assert_eq!(kept.unwrap(), case);
}

#[test]
fn invalid_case_prevents_the_run() {
    for (name, case, message) in [
        (
            "a.json",
            "{\"tool\": \"count_lines\",\n\"expct\": {}}",
            "`cases/a.json`, line 2: unknown key `expct` in a case; did you mean `expect`?",
        ),
        (
            "a.json",
            "{\"expect\": {\"text\": \"\"},\n\"tool\": \"count_line\"}",
            "`cases/a.json`, line 2: the component has no tool `count_line`; did you mean \
             `count_lines`?",
        ),
        (
            "a.json",
            "{\"expect\": {\"text\": \"\"}, \"tool\": \"\\u001b[2J\"}",
            "the component has no tool `\\u{1b}[2J`; the known ones are `count_lines`",
        ),
        (
            "a.json",
            "{",
            "`cases/a.json`, line 1, column 1: invalid JSON",
        ),
        ("a.json", "[]", "`cases` has no cases"),
        ("a.txt", PASSING, "`cases` has no cases"),
    ] {
        let run = run_cases(&project(&[(name, case)]), &[]);
        assert_eq!((run.code, &*run.stdout), (4, ""), "{run:?}");
        assert!(run.stderr.contains(message), "{run:?}");
    }
    let program = project(&[]);
    let missing = run_cases(&program, &[]);
    assert_eq!(missing.code, 4, "{missing:?}");
    assert!(
        missing.stderr.contains("cannot read the cases in `cases`"),
        "{missing:?}"
    );
    // A symlink to a file outside is not followed.
    let linked = project(&[("a.json", PASSING)]);
    fs::write(linked.folder.path().join("outside.json"), PASSING).unwrap();
    symlink("../outside.json", linked.folder.path().join("cases/b.json")).unwrap();
    let run = run_cases(&linked, &[]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("cannot read `cases/b.json`"), "{run:?}");
}

#[test]
fn prints_report_as_json_and_as_junit_xml() {
    let evil = "<&\"'>\u{1}\u{1b}[2J]]>\n\u{fffe}";
    let case = json!({"name": evil, "tool": "count_lines", "expect": {"text": evil}});
    let program = project(&[("a.json", &case.to_string()), ("b.json", PASSING)]);
    let run = run_cases(&program, &["--output", "json"]);
    assert_eq!((run.code, &*run.stderr), (1, ""), "{run:?}");
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["tools"], json!(["count_lines"]));
    assert_eq!(report["failed"], 1);
    let checks = report["checks"].as_array().unwrap();
    let count = |outcome: &str| checks.iter().filter(|c| c["outcome"] == outcome).count();
    assert_eq!(report["passed"], count("passed"));
    assert_eq!(report["skipped"], count("skipped"));
    let failed = checks.iter().find(|c| c["outcome"] == "failed").unwrap();
    assert_eq!(failed["id"], "case");
    assert_eq!(failed["case"], evil);

    let run = run_cases(&program, &["--output", "junit"]);
    assert_eq!((run.code, &*run.stderr), (1, ""), "{run:?}");
    program.write("report.xml", &run.stdout);
    // An independent parser reads the XML.
    let script = r#"
import json, sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
assert root.tag == "testsuites", root.tag
suites = []
for suite in root:
    assert suite.tag == "testsuite", suite.tag
    cases = list(suite)
    for case in cases:
        assert case.tag == "testcase" and case.get("classname") and case.get("name"), case.attrib
        assert float(case.get("time")) >= 0
        assert all(child.tag in ("failure", "skipped") and child.get("message") for child in case)
    failures = [case.find("failure") for case in cases if case.find("failure") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    assert suite.get("tests") == str(len(cases))
    assert suite.get("failures") == str(len(failures))
    assert suite.get("skipped") == str(len(skipped))
    assert suite.get("errors") == "0"
    suites.append([suite.get("name"), [case.get("name") for case in cases], [f.get("message") for f in failures]])
assert root.get("tests") == str(sum(len(cases) for _, cases, _ in suites))
print(json.dumps(suites))
"#;
    let report = program.folder.path().join("report.xml");
    let parsed = output(Command::new("python3").args(["-c", script]).arg(report));
    let stderr = String::from_utf8_lossy(&parsed.stderr);
    assert!(parsed.status.success(), "{stderr}\n{}", run.stdout);
    let suites: Value = serde_json::from_slice(&parsed.stdout).unwrap();
    let names: Vec<&Value> = suites.as_array().unwrap().iter().map(|s| &s[0]).collect();
    assert_eq!(names, ["component", "count_lines", "cases"]);
    // Hidden characters are escaped, and nothing else changes.
    assert_eq!(suites[2][1][0], "<&\"'>\\u{1}\\u{1b}[2J]]>\\n\\u{fffe}");
    assert!(
        suites[2][2][0]
            .as_str()
            .unwrap()
            .starts_with("expected an answer"),
        "{suites}"
    );
}

#[test]
fn case_cannot_forge_report_lines() {
    let case = json!({"name": "x\n  pass  all\u{1b}[2J", "tool": "count_lines",
        "arguments": {"skill_name": "a", "path": "two.txt"}, "expect": {"text": "\n  pass  all"}});
    let program = project(&[("a.json", &case.to_string())]);
    let run = run_cases(&program, &[]);
    assert_eq!(run.code, 1, "{run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(
        !lines.iter().any(|line| line.trim_end() == "  pass  all"),
        "{run:?}"
    );
    let last = lines.last().unwrap();
    assert!(last.contains("1 failed, 1 skipped in "), "{last}");
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("  FAIL  "))
            .count(),
        1
    );
}

#[test]
fn case_runs_with_configured_limits() {
    let path = format!("{0}/{0}/two.txt", "folder".repeat(40));
    let case = json!({"tool": "count_lines", "arguments": {"skill_name": "a", "path": path},
        "expect": {"error": {"kind": "output"}}});
    let program = project(&[("a.json", &case.to_string())]);
    program.write(&format!("skills/a/{path}"), "one\ntwo\n");
    program.write("c.toml", "limits.output = 300\n");
    let run = run_cases(&program, &["--config", "c.toml"]);
    assert!(run.stdout.contains("\n  pass  case "), "{run:?}");
}
