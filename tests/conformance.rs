//! Conformance runs: components that pass, the check that finds each fault,
//! authors' cases, and what is printed of it all.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost::{Limits, SkillsRoot};
use skillhost_conformance::{Check, Conformance, Outcome, Report, rules};

use crate::support::program::{Program, Run, run_in_repository};
use crate::support::{block_on, cache, guests, repository};

/// A run with the tests' cache.
fn of(component: impl Into<PathBuf>) -> Conformance {
    Conformance::of(component).cache(cache())
}

fn run(component: &Path) -> Report {
    block_on(of(component).run()).unwrap()
}

fn embedded(tool: &str) -> PathBuf {
    let dist = repository().join("guest-tools/dist");
    dist.join(format!("{tool}.wasm"))
}

/// The checks that failed, by the tool that they are about.
fn faults(report: &Report) -> BTreeMap<&str, Vec<&str>> {
    let mut faults: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for check in report.failed() {
        let tool = check.tool.as_deref().unwrap_or_default();
        faults.entry(tool).or_default().push(check.id);
    }
    faults
}

/// Why a check did not pass.
fn why(check: &Check) -> &str {
    match &check.outcome {
        Outcome::Passed => "",
        Outcome::Failed(reason) | Outcome::Skipped(reason) => &reason.why,
    }
}

#[test]
fn the_tools_that_come_with_the_host_pass() {
    for tool in [
        "read_file_in_skill",
        "get_skill",
        "read_skill_file",
        "read_skill",
        "list_skills",
        "skill_resources",
    ] {
        let report = run(&embedded(tool));
        assert_eq!(report.tools, [tool]);
        let failed: Vec<&Check> = report.failed().collect();
        assert_eq!(failed, [] as [&Check; 0]);
        // Every rule was tried but those of cases, and most had a subject.
        assert_eq!(report.checks.len(), rules().len() - 1);
        assert!(report.counts().0 >= 20, "{tool}: {:?}", report.counts());
    }
    let report = run(&guests().join("count_lines.wasm"));
    assert_eq!(report.failed().count(), 0);
    let skipped = |check: &&Check| matches!(check.outcome, Outcome::Skipped(_));
    let skipped: Vec<&str> = report
        .checks
        .iter()
        .filter(skipped)
        .map(|check| check.id)
        .collect();
    assert_eq!(skipped, ["null-is-absent"]);
}

#[test]
fn functions_with_types_pass_but_for_those_that_never_answer() {
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(2);
    let run = of(guests().join("typed.wasm")).limits(limits);
    let report = block_on(run.run()).unwrap();
    let expected = BTreeMap::from([
        ("break_off", vec!["answers"]),
        ("compute_for_ever", vec!["answers"]),
    ]);
    assert_eq!(faults(&report), expected);
}

#[test]
fn each_fault_is_found_by_the_check_that_is_for_it() {
    let report = run(&guests().join("faulty.wasm"));
    let expected = BTreeMap::from([
        ("9_faulty_name", vec!["format-gemini"]),
        ("faulty_description", vec!["described"]),
        ("faulty_long_description", vec!["format-openai"]),
        ("faulty_property", vec!["format-anthropic"]),
        ("faulty_required", vec!["arguments-fit"]),
        ("faulty_output_schema", vec!["format-mcp"]),
        ("faulty_record", vec!["records-fit"]),
        ("faulty_details", vec!["records-fit"]),
        ("faulty_random", vec!["same-twice"]),
        ("faulty_null", vec!["null-is-absent"]),
        ("faulty_empty", vec!["empty-file"]),
        ("faulty_binary", vec!["binary-file"]),
        ("faulty_huge", vec!["huge-file"]),
        (
            "faulty_skill",
            vec!["unknown-skill-refused", "skill-names-contained"],
        ),
        ("faulty_path", vec!["paths-contained"]),
        ("faulty_odd_path", vec!["odd-paths"]),
        ("faulty_exit", vec!["answers"]),
    ]);
    assert_eq!(faults(&report), expected);
    // Each tool of the guest has a fault that is expected here.
    assert_eq!(report.tools.len(), expected.len());
    for check in report.failed() {
        let Outcome::Failed(reason) = &check.outcome else {
            continue;
        };
        assert!(
            !reason.why.is_empty() && !reason.mend.is_empty(),
            "{check:?}"
        );
    }
    let exit = report.failed().find(|check| check.id == "answers").unwrap();
    let cause = "`faulty_exit` broke off: Exited with i32 exit status 0";
    assert!(why(exit).ends_with(cause), "{exit:?}");
}

#[test]
fn guests_that_check_nothing_or_attack_are_found_out() {
    let mut limits = Limits::default();
    limits.time = Duration::from_millis(300);
    let quick = |guest: &str| {
        let run = of(guests().join(guest)).limits(limits.clone());
        block_on(run.run()).unwrap()
    };
    let unchecked = quick("unchecked.wasm");
    let faults_of = faults(&unchecked);
    for (tool, fault) in [
        ("raw_readlink", "paths-contained"),
        ("raw_loop", "answers"),
        ("raw_sleep", "answers"),
        ("raw_panic", "answers"),
        ("raw_print", "paths-contained"),
        ("raw_mounts", "unknown-skill-refused"),
    ] {
        let found = faults_of.get(tool).is_some_and(|ids| ids.contains(&fault));
        assert!(found, "{tool}: {faults_of:?}");
    }
    // Nothing that it is asked for leads anywhere: the sandbox has it alone.
    for check in unchecked.failed() {
        assert!(!why(check).contains("showed what lies there"), "{check:?}");
    }
    let hostile = quick("hostile.wasm");
    let faults_of = faults(&hostile);
    assert_eq!(faults_of[""], ["definitions-stable"]);
    for (tool, fault) in [
        ("hostile_compute", "answers"),
        ("hostile_large_failure", "answers"),
        ("hostile_take_memory", "answers"),
        ("hostile_no_text", "answers"),
        ("hostile_no_json", "records-fit"),
        ("hostile_files", "answers"),
        ("hostile_exit_with_success", "answers"),
    ] {
        let found = faults_of.get(tool).is_some_and(|ids| ids.contains(&fault));
        assert!(found, "{tool}: {faults_of:?}");
    }
}

#[test]
fn what_is_no_tool_component_fails_in_one_check_and_what_is_not_there_is_an_error() {
    let program = Program::new();
    let module = wat::parse_str("(module)").unwrap();
    let nothing = wat::parse_str("(component)").unwrap();
    let future = wat::parse_str(
        r#"(component (instance $i) (export "skillhost:tool/tools@0.2.0" (instance $i)))"#,
    );
    for (name, bytes, reason) in [
        ("text.wasm", b"no component".to_vec(), "text.wasm"),
        ("module.wasm", module, "module.wasm"),
        ("nothing.wasm", nothing, "it is no tool component"),
        (
            "future.wasm",
            future.unwrap(),
            "run it with a newer skillhost",
        ),
    ] {
        program.write(name, bytes);
        let report = run(&program.folder.path().join(name));
        let [check] = report.checks.as_slice() else {
            panic!("{report:?}");
        };
        assert_eq!(check.id, "loads");
        assert!(matches!(check.outcome, Outcome::Failed(_)));
        assert!(why(check).contains(reason), "{check:?}");
    }
    let run = program.run(&["test", "missing.wasm"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("`missing.wasm`"), "{run:?}");
}

/// A folder with `count_lines.wasm`, a skill, and cases.
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

fn tested(program: &Program, more: &[&str]) -> Run {
    let first = ["test", "count_lines.wasm", "--cases", "cases"];
    program.run(&[&first, more].concat())
}

const TWO: &str = r#"{"tool": "count_lines", "arguments": {"skill_name": "a", "path": "two.txt"},
 "expect": {"text": "2 lines in two.txt of a"}}"#;

#[test]
fn authors_cases_pass_or_say_what_is_otherwise() {
    let cases = format!(
        r#"[{TWO},
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
        ("a.json", TWO),
        ("notes.txt", "no case"),
    ]);
    let report = block_on(
        of(program.folder.path().join("count_lines.wasm"))
            .cases(program.folder.path().join("cases"))
            .skills_root(SkillsRoot {
                path: program.folder.path().join("skills"),
                follow_links: false,
            })
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
                r#""3 lines" was expected in it, and it was "2 lines in two.txt of a""#
            ),
            ("none", ""),
            ("no path", ""),
            (
                "b#5",
                "an answer was expected, and the call ended with `not-found`: \"There is no skill \
                 of that name. list_skills tells which there are.\""
            ),
        ]
    );
    let run = tested(&program, &[]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains("\n  FAIL  case "), "{run:?}");
}

#[test]
fn update_writes_what_comes_out_and_nothing_else() {
    let program = project(&[
        ("right.json", TWO),
        (
            "wrong.json",
            r#"[
              {"expect": {"text": "?"}, "name": "text", "tool": "count_lines",
               "arguments": {"skill_name": "a", "path": "two.txt"}},
              {"tool": "count_lines", "arguments": {"skill_name": "a", "path": "../x"}}
            ]"#,
        ),
    ]);
    let unfinished = tested(&program, &[]);
    assert_eq!(unfinished.code, 4, "{unfinished:?}");
    assert!(
        unfinished
            .stderr
            .contains("`cases/wrong.json`, line 4: the case has no `expect`"),
        "{unfinished:?}"
    );
    let update = tested(&program, &["--update"]);
    assert_eq!(update.code, 0, "{update:?}");
    assert_eq!(update.stderr, "skillhost: wrote `cases/wrong.json`\n");
    let read = |name: &str| fs::read_to_string(program.folder.path().join(name)).unwrap();
    assert_eq!(read("cases/right.json"), TWO);
    let written = read("cases/wrong.json");
    let expected = json!([
        {"expect": {"text": "2 lines in two.txt of a"}, "name": "text", "tool": "count_lines",
         "arguments": {"skill_name": "a", "path": "two.txt"}},
        {"tool": "count_lines", "arguments": {"skill_name": "a", "path": "../x"},
         "expect": {"error": {"kind": "refused", "message":
            "Path traversal detected: cannot access files outside skill folder"}}},
    ]);
    assert_eq!(written, format!("{expected:#}\n"));
    let again = tested(&program, &["--update"]);
    assert_eq!((again.code, &*again.stderr), (0, ""), "{again:?}");
    assert_eq!(tested(&program, &[]).code, 0);
}

#[test]
fn a_case_that_ends_otherwise_each_time_fails_and_is_not_written_anew() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let case = r#"{"tool": "faulty_random", "arguments": {"skill_name": "a", "path": "SKILL.md"}}"#;
    program.write("cases/random.json", case);
    let run = of(guests().join("faulty.wasm"))
        .cases(program.folder.path().join("cases"))
        .skills_root(SkillsRoot {
            path: program.folder.path().join("skills"),
            follow_links: false,
        })
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
fn a_case_that_says_nothing_sensible_stops_the_run_before_it_begins() {
    for (name, case, message) in [
        (
            "a.json",
            "{\"tool\": \"count_lines\",\n\"expct\": {}}",
            "`cases/a.json`, line 2: a case has no key `expct`; did you mean `expect`?",
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
            "the component has no tool `\\u{1b}[2J`; it has `count_lines`",
        ),
        (
            "a.json",
            "{",
            "`cases/a.json`, line 1, column 1: it is not JSON",
        ),
        ("a.json", "[]", "`cases` has no case"),
        ("a.txt", TWO, "`cases` has no case"),
    ] {
        let run = tested(&project(&[(name, case)]), &[]);
        assert_eq!((run.code, &*run.stdout), (4, ""), "{run:?}");
        assert!(run.stderr.contains(message), "{run:?}");
    }
    let program = project(&[]);
    let missing = tested(&program, &[]);
    assert_eq!(missing.code, 4, "{missing:?}");
    assert!(
        missing.stderr.contains("cannot read the cases in `cases`"),
        "{missing:?}"
    );
    // A file of somebody else's is not read by way of a link.
    let linked = project(&[("a.json", TWO)]);
    fs::write(linked.folder.path().join("outside.json"), TWO).unwrap();
    symlink("../outside.json", linked.folder.path().join("cases/b.json")).unwrap();
    let run = tested(&linked, &[]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("cannot read `cases/b.json`"), "{run:?}");
}

#[test]
fn programs_read_the_same_report_as_json_and_as_junits_xml() {
    let evil = "<&\"'>\u{1}\u{1b}[2J]]>\n\u{fffe}";
    let case = json!({"name": evil, "tool": "count_lines", "expect": {"text": evil}});
    let program = project(&[("a.json", &case.to_string()), ("b.json", TWO)]);
    let run = tested(&program, &["--output", "json"]);
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

    let run = tested(&program, &["--output", "junit"]);
    assert_eq!((run.code, &*run.stderr), (1, ""), "{run:?}");
    program.write("report.xml", &run.stdout);
    // Read by a parser that is not ours.
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
    let parsed = Command::new("python3")
        .args(["-c", script])
        .arg(program.folder.path().join("report.xml"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&parsed.stderr);
    assert!(parsed.status.success(), "{stderr}\n{}", run.stdout);
    let suites: Value = serde_json::from_slice(&parsed.stdout).unwrap();
    let names: Vec<&Value> = suites.as_array().unwrap().iter().map(|s| &s[0]).collect();
    assert_eq!(names, ["component", "count_lines", "cases"]);
    // What is hidden is readable, and the rest is what it was.
    assert_eq!(suites[2][1][0], "<&\"'>\\u{1}\\u{1b}[2J]]>\\n\\u{fffe}");
    assert!(
        suites[2][2][0]
            .as_str()
            .unwrap()
            .starts_with("an answer was expected"),
        "{suites}"
    );
}

#[test]
fn people_read_lines_that_nothing_in_a_case_can_pass_for() {
    let case = json!({"name": "x\n  pass  all\u{1b}[2J", "tool": "count_lines",
        "arguments": {"skill_name": "a", "path": "two.txt"}, "expect": {"text": "\n  pass  all"}});
    let program = project(&[("a.json", &case.to_string())]);
    let run = tested(&program, &[]);
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
fn the_page_names_every_check_and_its_cases_run() {
    let page = fs::read_to_string(repository().join("docs/testing-tools.md")).unwrap();
    for rule in rules() {
        let row = format!("| `{}` | {} |", rule.id, rule.sentence);
        assert!(page.contains(&row), "there is no row {row}");
    }
    let program = Program::new();
    let blocks: Vec<&str> = page.split("```json\n").skip(1).collect();
    for (index, block) in blocks.iter().enumerate() {
        let block = block.split("```").next().unwrap();
        program.write(&format!("cases/{index}.json"), block);
    }
    assert_eq!(blocks.len(), 2);
    let cases = program.folder.path().join("cases");
    let run = run_in_repository(&[
        "test".to_owned(),
        "tests/guests/dist/count_lines.wasm".to_owned(),
        "--cases".to_owned(),
        cases.display().to_string(),
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.stdout.matches("\n  pass  case ").count(), 3, "{run:?}");
}
