//! The example `search_in_skill`: its conformance, its cases, hostile folders, and a
//! call over MCP.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use skillhost::{Grant, Host, HostBuilder, SkillsRoot};
use skillhost_conformance::Conformance;

use crate::support::folders::{CANARY, Folders};
use crate::support::session::Session;
use crate::support::{block_on, build, builder, cache, call, repository};

const TOOL: &str = "search_in_skill";

/// Returns the builder of a host with only the example, which may read every skill.
fn example_host() -> HostBuilder {
    builder()
        .without_embedded_tools()
        .tools(repository().join("guest-tools/examples/dist"))
        .grant("search_in_skill.wasm", Grant::new().skills(["*"]).unwrap())
}

/// Calls the example, and returns the record of its answer.
fn search(host: &Host, arguments: Value) -> Value {
    call(host, TOOL, arguments).unwrap().record()
}

/// Returns the file and line of each match.
fn locations(record: &Value) -> Vec<(&str, u64)> {
    let matches = record["matches"].as_array().unwrap().iter();
    matches
        .map(|found| {
            (
                found["file"].as_str().unwrap(),
                found["line"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn conforms_and_its_cases_pass() {
    let examples = repository().join("guest-tools/examples");
    let run = Conformance::new(examples.join("dist/search_in_skill.wasm"))
        .cache(cache())
        .cases(examples.join("search-in-skill/cases"))
        .skills_root(SkillsRoot::new(repository().join("skills")));
    let report = block_on(run.run()).unwrap();
    let failed: Vec<_> = report.failed().collect();
    assert_eq!(failed, [] as [&skillhost_conformance::Check; 0]);
    let cases = report.checks.iter().filter(|check| check.case.is_some());
    assert_eq!(cases.count(), 10);
}

#[test]
fn finds_only_text_files_of_skill_in_order() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# Needle\nhay\nNEEDLE and hay\n");
    folders.write("a/b.txt", "hay\r\nneedle\r\n");
    folders.write("a/b/c.txt", "needle");
    folders.write("a/utf16.txt", b"\xff\xfen\0e\0e\0d\0l\0e\0");
    folders.write("a/binary.bin", b"needle\0needle");
    folders.write("a/legacy.txt", b"needle \xff\xfe\n");
    folders.write("a/long.txt", "x".repeat(5000) + "needle");
    let skill = folders.root.join("a");
    symlink(folders.outside.join("canary.txt"), skill.join("out.txt")).unwrap();
    symlink("../../outside", skill.join("outside")).unwrap();
    symlink(".", skill.join("itself")).unwrap();
    symlink("b", skill.join("again")).unwrap();
    let host = build(example_host().skills(&folders.root));
    let record = search(&host, json!({"skill_name": "a", "query": "needle"}));
    assert_eq!(
        locations(&record),
        [
            ("SKILL.md", 1),
            ("SKILL.md", 3),
            ("again/c.txt", 1),
            ("b/c.txt", 1),
            ("b.txt", 2),
            ("long.txt", 1),
            ("utf16.txt", 1),
        ]
    );
    assert_eq!(record["truncated"], false);
    let long = record["matches"][5]["text"].as_str().unwrap();
    assert_eq!(long.chars().count(), 301);
    // No query finds text in files outside the skill.
    let record = search(&host, json!({"skill_name": "a", "query": CANARY}));
    assert_eq!(locations(&record), []);
    let pattern = json!({"skill_name": "a", "query": "needle$", "regex": true});
    let record = search(&host, pattern);
    assert_eq!(record["matches"].as_array().unwrap().len(), 5);
}

#[test]
fn answer_says_when_the_search_was_cut() {
    let folders = Folders::new();
    folders.write("many/SKILL.md", "line\n".repeat(200));
    folders.write("huge/SKILL.md", "hay\n".repeat(2 << 20) + "needle\n");
    let mut deep = "deep".to_owned();
    for _ in 0..40 {
        deep.push_str("/d");
    }
    folders.write(&format!("{deep}/SKILL.md"), "needle\n");
    let host = build(example_host().skills(&folders.root));
    for (skill, query, max_results, matches, truncated) in [
        ("many", "line", 100, 100, true),
        ("many", "needle", 100, 0, false),
        // The tool reads only the start of the file, and the needle comes later.
        ("huge", "needle", 1, 0, true),
        ("deep", "needle", 1, 0, true),
    ] {
        let arguments = json!({"skill_name": skill, "query": query, "max_results": max_results});
        let record = search(&host, arguments);
        let seen = (locations(&record).len(), &record["truncated"]);
        assert_eq!(seen, (matches, &json!(truncated)), "{skill}");
    }
}

#[test]
fn answers_over_mcp() {
    let mut session = Session::open(example_host().skills(repository().join("skills")));
    let listed = session.ask("tools/list", json!({})).unwrap();
    assert_eq!(listed["tools"][0]["name"], TOOL);
    let arguments = json!({"skill_name": "calculator", "query": "def subtract"});
    let params = json!({"name": TOOL, "arguments": arguments});
    let answer = session.ask("tools/call", params).unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("examples/basic.py:5: def subtract(a, b):\n"),
        "{text}"
    );
}
