//! The contracts, case by case: every example, every row of their tables, and every line of their
//! checklists. The cases are in `vectors/`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use skillhost::{CallError, Grant, Host, HostBuilder, SearchOffer, Wording, message};
use skillhost_index::MemoryIndex;

use crate::support::folders::{CANARY, Folders};
use crate::support::program::run_unprivileged;
use crate::support::{block_on, build, builder, repository};

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The checked part of the contract.
    source: String,
    skills: Skills,
    arguments: Value,
    exit: i32,
    text: Option<String>,
    text_json: Option<Value>,
    #[serde(default)]
    text_contains: Vec<String>,
    text_starts_with: Option<String>,
    text_length: Option<usize>,
    json: Option<Value>,
    json_contains: Option<Value>,
    #[serde(default)]
    needs_unprivileged: bool,
}

/// The root of the skills that a case reads.
#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Skills {
    /// The folder `skills` of this repository.
    Samples,
    /// The skills that the test builds from `vectors/built_skills.json`.
    Built,
}

/// The result of a case.
struct Seen {
    exit: i32,
    text: String,
    json: Value,
}

#[test]
fn read_file_in_skill_keeps_its_contract() {
    check("read_file_in_skill", 145);
}

#[test]
fn get_skill_keeps_its_contract() {
    check("get_skill", 44);
}

#[test]
fn read_skill_file_keeps_its_contract() {
    check("read_skill_file", 118);
}

#[test]
fn read_skill_keeps_its_contract() {
    check("read_skill", 41);
}

#[test]
fn list_skills_keeps_its_contract() {
    check("list_skills", 9);
}

#[test]
fn find_skills_matches_its_vectors() {
    check("find_skills", 9);
}

/// Builds a host with the skills of a root, and with an index that has read them.
fn host_with_index(root: &Path, host: HostBuilder) -> Host {
    let index = Arc::new(MemoryIndex::new());
    let host = host
        .skills(root)
        .search_offer(SearchOffer::Always)
        .index(Arc::clone(&index) as _);
    let host = build(host);
    host.update_index();
    assert!(index.wait_until_ready(Duration::from_secs(60)));
    host
}

#[test]
fn list_files_in_skill_keeps_its_contract() {
    check("list_files_in_skill", 12);
}

/// Runs the cases of a tool. Fails if there are fewer than `at_least`.
fn check(tool: &str, at_least: usize) {
    let path = repository().join(format!("tests/vectors/{tool}.json"));
    let vectors: Vectors = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(vectors.cases.len() >= at_least);
    let samples = host_with_index(&repository().join("skills"), builder());
    let built = host_with_index(&Folders::built().root, builder());
    let failed: Vec<String> = vectors
        .cases
        .iter()
        .filter_map(|case| {
            let seen = if case.needs_unprivileged {
                run_program(tool, case)
            } else {
                let host = if case.skills == Skills::Samples {
                    &samples
                } else {
                    &built
                };
                run_host(host, tool, case)
            };
            let wrong = differences(case, &seen);
            (!wrong.is_empty()).then(|| {
                format!(
                    "{} ({})\n  {}\n",
                    case.name,
                    case.source,
                    wrong.join("\n  ")
                )
            })
        })
        .collect();
    assert!(
        failed.is_empty(),
        "{} cases differ:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

fn arguments(case: &Case) -> Value {
    let text = Folders::built().fill_in(&case.arguments.to_string());
    serde_json::from_str(&text).unwrap()
}

fn run_host(host: &Host, tool: &str, case: &Case) -> Seen {
    let outcome = block_on(host.call(tool, arguments(case)));
    Seen {
        exit: match &outcome {
            Ok(_) => 0,
            Err(CallError::Failed(_)) => 1,
            Err(CallError::Arguments(_)) => 2,
            Err(other) => panic!("{}: {other:?}", case.name),
        },
        json: serde_json::from_str(&message::program_text(&outcome)).unwrap(),
        text: message::model_text(outcome),
    }
}

fn run_program(tool: &str, case: &Case) -> Seen {
    let root = Folders::built().root.to_str().unwrap();
    let arguments = arguments(case).to_string();
    let run = |output| {
        run_unprivileged(&[
            "--skills", root, "call", tool, &arguments, "--output", output,
        ])
    };
    let text = run("text");
    Seen {
        exit: text.code,
        text: text.stdout,
        json: serde_json::from_str(&run("json").stdout).unwrap_or_default(),
    }
}

fn differences(case: &Case, seen: &Seen) -> Vec<String> {
    let mut wrong = Vec::new();
    let shown: String = seen.text.chars().take(300).collect();
    let mut expect = |right: bool, what: String| {
        if !right {
            wrong.push(format!("{what}\n    but the text is {shown:?}"));
        }
    };
    expect(
        seen.exit == case.exit,
        format!("expected exit code {}, got {}", case.exit, seen.exit),
    );
    if let Some(text) = &case.text {
        expect(seen.text == *text, format!("expected the text {text:?}"));
    }
    if let Some(json) = &case.text_json {
        let text: Option<Value> = serde_json::from_str(&seen.text).ok();
        expect(
            text.as_ref() == Some(json),
            format!("expected the JSON text {json}"),
        );
    }
    for part in &case.text_contains {
        expect(
            seen.text.contains(part),
            format!("expected {part:?} in the text"),
        );
    }
    if let Some(start) = &case.text_starts_with {
        expect(
            seen.text.starts_with(start),
            format!("expected a text that starts with {start:?}"),
        );
    }
    if let Some(length) = case.text_length {
        expect(
            seen.text.len() == length,
            format!("expected {length} bytes, got {}", seen.text.len()),
        );
    }
    expect(!seen.text.contains(CANARY), "expected no canary".to_owned());
    let json: String = seen.json.to_string().chars().take(400).collect();
    if let Some(expected) = &case.json {
        expect(
            equal(expected, &seen.json, &seen.text),
            format!("expected {expected}, got {json}"),
        );
    }
    if let Some(expected) = &case.json_contains {
        expect(
            contains(expected, &seen.json, &seen.text),
            format!("expected {expected} in {json}"),
        );
    }
    wrong
}

/// Returns whether a value equals the expected one. An expected `{"$text": true}` stands for
/// `text`, the answer for models.
fn equal(expected: &Value, seen: &Value, text: &str) -> bool {
    match (expected, seen) {
        (Value::Object(expected), seen) if is_text(expected) => seen.as_str() == Some(text),
        (Value::Object(expected), Value::Object(seen)) => {
            expected.len() == seen.len()
                && expected
                    .iter()
                    .all(|(key, value)| seen.get(key).is_some_and(|seen| equal(value, seen, text)))
        }
        (expected, seen) => expected == seen,
    }
}

/// Returns whether a value contains all expected members.
fn contains(expected: &Value, seen: &Value, text: &str) -> bool {
    match (expected, seen) {
        (Value::Object(expected), Value::Object(seen)) if !is_text(expected) => {
            expected.iter().all(|(key, value)| {
                seen.get(key)
                    .is_some_and(|seen| contains(value, seen, text))
            })
        }
        (expected, seen) => equal(expected, seen, text),
    }
}

fn is_text(expected: &Map<String, Value>) -> bool {
    expected.get("$text") == Some(&Value::Bool(true))
}

/// Checks the definition of each built-in tool. The expected one is the tool's file in the first
/// of these folders that has it.
fn check_definitions(host: &Host, folders: &[&str]) {
    let functions: Vec<Value> = host.definitions().iter().map(message::function).collect();
    // This repository has the definitions of the contracts, but not the contracts themselves.
    let expected = |tool: &str| {
        let files = folders.iter();
        let mut files = files.map(|folder| repository().join(format!("{folder}/{tool}.json")));
        let file = files.find(|file| file.exists()).unwrap();
        serde_json::from_slice::<Value>(&std::fs::read(file).unwrap()).unwrap()
    };
    for tool in [
        "read_file_in_skill",
        "get_skill",
        "read_skill_file",
        "read_skill",
        "list_skills",
        "find_skills",
        "list_files_in_skill",
    ] {
        let function = functions.iter().find(|f| f["function"]["name"] == tool);
        assert_eq!(function, Some(&expected(tool)), "{tool}");
    }
}

#[test]
fn definitions_match_vectors() {
    let host = host_with_index(&repository().join("skills"), builder());
    check_definitions(&host, &["tests/vectors/definitions"]);
}

#[test]
fn definitions_in_contract_wording_equal_those_of_contracts() {
    let contract_builder = builder().wording(Wording::Contract);
    let host = host_with_index(&repository().join("skills"), contract_builder);
    let folders = [
        "tests/vectors/definitions/contract",
        "tests/vectors/definitions",
    ];
    check_definitions(&host, &folders);
}

#[test]
fn read_skill_lists_skills_or_is_not_offered() {
    let folders = Folders::new();
    let host = build(builder().skills(&folders.root));
    let offered = || -> Vec<Value> {
        host.definitions()
            .iter()
            .filter(|definition| definition.name == "read_skill")
            .map(|d| d.input_schema["properties"]["skill_name"]["enum"].clone())
            .collect()
    };
    assert_eq!(offered(), [] as [Value; 0]);
    folders.write("b/SKILL.md", "---\nname: b\ndescription: B.\n---\nB\n");
    folders.write("a/SKILL.md", "---\nname: a\ndescription: A.\n---\nA\n");
    assert_eq!(offered(), [serde_json::json!(["a", "b"])]);
    std::fs::remove_dir_all(folders.root.join("b")).unwrap();
    assert_eq!(offered(), [serde_json::json!(["a"])]);
}

#[test]
fn operator_can_put_a_header_above_instructions() {
    let header = Grant::new().environment("SKILL_HEADER", "on");
    let host = builder().skills(repository().join("skills"));
    let host = build(host.grant("read_skill", header));
    let arguments = serde_json::json!({"skill_name": "calculator"});
    let output = block_on(host.call("read_skill", arguments)).unwrap();
    assert!(
        output
            .text()
            .starts_with("--- Skill: calculator ---\n# Calculator Skill\n")
    );
}
