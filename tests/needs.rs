//! The requests and secrets that a component asks for, and what an operator sees of them.

use std::fs;

use serde_json::{Value, json};

use crate::builds::Machine;
use crate::hostile_components::{component_with_import, listing_of};
use crate::support::guests;
use crate::support::program::{Program, Run};

/// The import of a component that sends requests.
const OUTGOING: &str = "wasi:http/outgoing-handler@0.2.0";

const NEEDS: &str = r#"
[[network]]
rule = "GET https://api.example.org/v1/*"
why = "reads forecasts"

[secrets.WEATHER_TOKEN]
header = "Authorization"
hosts = ["api.example.org"]
why = "the service counts requests by key"
"#;

fn needs() -> Value {
    json!({
        "network": [{"rule": "GET https://api.example.org/v1/*", "why": "reads forecasts"}],
        "secrets": {"WEATHER_TOKEN": {
            "header": "authorization",
            "hosts": ["api.example.org"],
            "why": "the service counts requests by key",
        }},
    })
}

/// Adds a section of needs to a component.
fn with_section(mut component: Vec<u8>, content: &str) -> Vec<u8> {
    let content = ["\u{f}skillhost:needs", content].concat();
    component.push(0);
    let mut length = content.len();
    while length >= 0x80 {
        component.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    component.push(length as u8);
    component.extend(content.as_bytes());
    component
}

fn count_lines() -> Vec<u8> {
    fs::read(guests().join("count_lines.wasm")).unwrap()
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

#[test]
fn build_writes_needs_that_inspect_shows() {
    for language in ["python", "javascript"] {
        let machine = Machine::with_project(language);
        machine.program.write("project/needs.toml", NEEDS);
        let run = machine.build();
        assert_eq!(run.code, 0, "{language}: {run:?}");
        let asked = "asks for (unverified, and grants nothing):\n  \
            requests GET https://api.example.org/v1/*: reads forecasts\n  \
            secret WEATHER_TOKEN in the header authorization to api.example.org: \
            the service counts requests by key\n";
        assert!(run.stdout.contains(asked), "{language}: {run:?}");
        let built = "project/dist/count_lines.wasm";
        let run = machine.program.run(&["inspect", built, "--output", "json"]);
        let seen = json(&run);
        assert_eq!(seen["needs"], needs(), "{language}");
        assert_eq!(seen["needs_ignored_for"], Value::Null, "{language}");
        // A build without the file makes a component that asks for nothing.
        fs::remove_file(machine.project.join("needs.toml")).unwrap();
        let run = machine.build();
        assert_eq!(run.code, 0, "{language}: {run:?}");
        assert!(!run.stdout.contains("asks for"), "{language}: {run:?}");
    }
}

#[test]
fn build_refuses_wrong_needs_before_it_compiles() {
    for language in ["python", "javascript", "c", "rust"] {
        let machine = Machine::with_project(language);
        let wrong = NEEDS.replace("GET https", "ftp");
        machine.program.write("project/needs.toml", wrong);
        let run = machine.build();
        assert_eq!(run.code, 1, "{language}: {run:?}");
        let said = "`needs.toml`, line 3: `ftp://api.example.org/v1/*`: an address begins with";
        assert!(run.stderr.contains(said), "{language}: {run:?}");
        assert_eq!(machine.installed(), 0, "{language}");
    }
}

#[test]
fn inspect_escapes_needs_and_ignores_wrong_ones() {
    let program = Program::new();
    let hidden = json!({"network": [
        {"rule": "https://api.example.org/\u{202e}", "why": "a\u{1b}[2J\nsha256: 0"},
    ]});
    let inspect = |section: &str, output: &str| {
        program.write("a.wasm", with_section(count_lines(), section));
        program.run(&["inspect", "a.wasm", "--output", output])
    };
    let run = inspect(&hidden.to_string(), "text");
    assert_eq!(run.code, 0, "{run:?}");
    let shown = "  requests https://api.example.org/\\u{202e}: a\\u{1b}[2J\\nsha256: 0\n";
    assert!(run.stdout.contains(shown), "{run:?}");
    assert_eq!(
        json(&inspect(&hidden.to_string(), "json"))["needs"]["network"],
        hidden["network"]
    );
    for (section, why) in [
        ("{", "EOF while parsing"),
        ("{\"powers\": 1}", "unknown field `powers`"),
        (
            "{\"network\": [{\"rule\": \"\\n*\", \"why\": \"a\"}]}",
            "`\\n*`: an address begins",
        ),
    ] {
        // The component still loads, and asks for nothing.
        let run = inspect(section, "text");
        assert_eq!(run.code, 0, "{run:?}");
        let note = format!("asks for: the section `skillhost:needs` is ignored: {why}");
        assert!(run.stdout.contains(&note), "{note}: {run:?}");
        let seen = json(&inspect(section, "json"));
        assert_eq!(seen["needs"], Value::Null);
        let shown = seen["needs_ignored_for"].as_str().unwrap();
        assert!(shown.contains(why), "{shown}");
    }
}

#[test]
fn inspect_says_that_requests_need_a_grant() {
    let program = Program::new();
    let note = "sends HTTP requests: each is denied unless a grant's `network` allows it\n";
    program.write("silent.wasm", count_lines());
    program.write(
        "sends.wasm",
        component_with_import(OUTGOING, &listing_of(&[("fetch", "{}")])),
    );
    for (file, sends) in [("silent.wasm", false), ("sends.wasm", true)] {
        let run = program.run(&["inspect", file]);
        assert_eq!((run.code, run.stdout.contains(note)), (0, sends), "{run:?}");
        let run = program.run(&["inspect", file, "--output", "json"]);
        assert_eq!(json(&run)["sends_requests"], sends, "{run:?}");
    }
}
