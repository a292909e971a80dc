//! Conformance runs: components that pass, the check that finds each fault, and the
//! page that describes the checks.

// Cases that a tool's author writes, and the reports of a run.
mod cases;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skillhost::Limits;
use skillhost_conformance::{Check, Conformance, Outcome, Report, rules};

use crate::support::program::{Program, run_in_repository};
use crate::support::{block_on, cache, guests, repository};

/// The number of checks that are not about one tool: `loads`, `has-tools`,
/// `definitions-stable` and `case`.
const CHECKS_WITHOUT_TOOL: usize = 4;

/// Prepares a run with the tests' cache.
fn conformance(component: impl Into<PathBuf>) -> Conformance {
    Conformance::new(component).cache(cache())
}

fn run(component: &Path) -> Report {
    block_on(conformance(component).run()).unwrap()
}

fn built_in(tool: &str) -> PathBuf {
    let dist = repository().join("guest-tools/dist");
    dist.join(format!("{tool}.wasm"))
}

/// Returns the failed checks of each tool.
fn faults(report: &Report) -> BTreeMap<&str, Vec<&str>> {
    let mut faults: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for check in report.failed() {
        let tool = check.tool.as_deref().unwrap_or_default();
        faults.entry(tool).or_default().push(check.id);
    }
    faults
}

/// Returns the reason why a check did not pass.
fn why(check: &Check) -> &str {
    match &check.outcome {
        Outcome::Passed => "",
        Outcome::Failed(reason) | Outcome::Skipped(reason) => &reason.why,
    }
}

#[test]
fn built_in_tools_pass() {
    for tool in [
        "read_file_in_skill",
        "get_skill",
        "read_skill_file",
        "read_skill",
        "list_skills",
        "find_skills",
        "list_files_in_skill",
        "skill_resources",
    ] {
        let report = run(&built_in(tool));
        assert_eq!(report.tools, [tool]);
        let failed: Vec<&Check> = report.failed().collect();
        assert_eq!(failed, [] as [&Check; 0]);
        // All rules ran except the one for cases, and most of them applied.
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
fn typed_functions_pass_if_they_answer() {
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(2);
    let run = conformance(guests().join("typed.wasm")).limits(limits);
    let report = block_on(run.run()).unwrap();
    let expected = BTreeMap::from([
        ("break_off", vec!["answers"]),
        ("compute_for_ever", vec!["answers"]),
    ]);
    assert_eq!(faults(&report), expected);
}

#[test]
fn each_check_finds_its_fault() {
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
    // Each tool of the guest has one fault.
    assert_eq!(report.tools.len(), expected.len());
    // Checks that could not run because of a fault are listed too.
    for tool in &report.tools {
        let is_of_tool = |check: &&Check| check.tool.as_deref() == Some(tool);
        let listed = report.checks.iter().filter(is_of_tool).count();
        let rules = rules().len() - CHECKS_WITHOUT_TOOL;
        assert_eq!(listed, rules, "{tool}");
    }
    for check in report.failed() {
        let Outcome::Failed(reason) = &check.outcome else {
            continue;
        };
        assert!(
            !reason.why.is_empty() && !reason.fix.is_empty(),
            "{check:?}"
        );
    }
    let exit = report.failed().find(|check| check.id == "answers").unwrap();
    let cause = "`faulty_exit` trapped: Exited with i32 exit status 0 in `proc_exit`";
    assert!(why(exit).ends_with(cause), "{exit:?}");
}

#[test]
fn hostile_and_careless_guests_fail() {
    let mut limits = Limits::default();
    limits.time = Duration::from_millis(300);
    let quick = |guest: &str| {
        let run = conformance(guests().join(guest)).limits(limits.clone());
        let run = run.traces(|trace| trace.output.lines().map(str::to_owned).collect());
        block_on(run.run()).unwrap()
    };
    // This guest passes each path to WASI without a check.
    let careless = quick("unchecked.wasm");
    let faults_of = faults(&careless);
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
    for check in &careless.checks {
        let is_panic = check.id == "answers" && check.tool.as_deref() == Some("raw_panic");
        let shown = check.trace.iter().any(|line| line.contains("panicked at"));
        assert_eq!(shown, is_panic, "{check:?}");
        assert!(check.trace.is_empty() || check.outcome != Outcome::Passed);
    }
    // `paths-contained` also fails for a tool that answers a path outside. Even so, no answer
    // reveals a file there, because the sandbox holds only the skill's folder.
    for check in careless.failed() {
        assert!(!why(check).contains("revealed a file outside"), "{check:?}");
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
fn reports_unloadable_file_but_refuses_missing_file() {
    let program = Program::new();
    let module = wat::parse_str("(module)").unwrap();
    let nothing = wat::parse_str("(component)").unwrap();
    let future = wat::parse_str(
        r#"(component (instance $i) (export "skillhost:tool/tools@0.2.0" (instance $i)))"#,
    );
    for (name, bytes, reason) in [
        ("text.wasm", b"not a component".to_vec(), "text.wasm"),
        ("module.wasm", module, "module.wasm"),
        ("nothing.wasm", nothing, "it is not a tool component"),
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

#[test]
fn page_lists_every_check_and_valid_cases() {
    let page = fs::read_to_string(repository().join("docs/guides/test-tools.md")).unwrap();
    for rule in rules() {
        let row = format!("| `{}` | {} |", rule.id, rule.sentence);
        assert!(page.contains(&row), "the page has no row {row}");
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
