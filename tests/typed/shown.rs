//! Functions as tools through the program and over MCP.

use std::fs;

use serde_json::{Value, json};
use skillhost::Grant;

use super::guest_bytes;
use crate::support::folders::Folders;
use crate::support::program::Program;
use crate::support::session::Session;
use crate::support::{builder, repository};

/// Makes a project with the guest, an audit log, and one skill that it may read.
fn program() -> Program {
    let program = Program::new();
    program.write("skills/calculator/SKILL.md", "# Calculator\n");
    program.write("tools/typed.wasm", guest_bytes());
    program.write(
        "skillhost.toml",
        "skills = [\"skills\"]\ntools = [\"tools\"]\naudit_file = \"audit.jsonl\"\n\
         [grants.\"typed.wasm\"]\nskills = [\"calculator\"]\n",
    );
    program
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn inspect_shows_functions_as_tools() {
    let program = program();
    let run = program.run(&["inspect", "--all", "tools/typed.wasm"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for line in [
        "  echo_u8: reads no skill",
        "  folder: reads the skill named by `skill_name`",
        "    Answers with the string, or fails with it.  It fails where `fail` says so.",
        "  granted  wasi:filesystem/preopens@",
    ] {
        assert!(run.stdout.contains(line), "{line}\n{}", run.stdout);
    }
    let run = program.run(&["inspect", "tools/typed.wasm", "--output", "json"]);
    let inspected = parse(&run.stdout);
    let tools = inspected["tools"].as_array().unwrap();
    let folder = tools.iter().find(|tool| tool["name"] == "folder").unwrap();
    assert_eq!(folder["skill_property"], "skill_name");
    assert_eq!(
        folder["output_schema"]["properties"]["result"]["maxItems"],
        2
    );
}

#[test]
fn inspect_escapes_hidden_characters_in_metadata() {
    let program = program();
    let mut bytes = guest_bytes();
    for (name, text) in [
        ("version", "1.2.3"),
        ("authors", "A\u{1b}[2J\nB\u{202e}"),
        ("licenses", "MIT"),
        ("description", ""),
    ] {
        let content = [&[name.len() as u8], name.as_bytes(), text.as_bytes()].concat();
        bytes.extend([&[0, content.len() as u8], &*content].concat());
    }
    fs::write(program.folder.path().join("metadata.wasm"), bytes).unwrap();
    let run = program.run(&["inspect", "metadata.wasm"]);
    let metadata = "metadata (unverified):\n  version: 1.2.3\n  authors: A\\u{1b}[2J\\nB\\u{202e}\n  licenses: MIT\n";
    assert!(run.stdout.contains(metadata), "{}", run.stdout);
    let run = program.run(&["inspect", "metadata.wasm", "--output", "json"]);
    assert_eq!(
        parse(&run.stdout)["metadata"],
        json!({"name": null, "version": "1.2.3", "description": null,
            "authors": "A\u{1b}[2J\nB\u{202e}", "licenses": "MIT", "source": null})
    );
    // Most components have no metadata.
    let run = program.run(&["inspect", "tools/typed.wasm"]);
    assert!(
        !run.stdout.contains("metadata (unverified)"),
        "{}",
        run.stdout
    );
}

#[test]
fn program_calls_functions_and_records_the_calls() {
    let program = program();
    for (tool, arguments, code, stdout) in [
        ("echo_u8", r#"{"value": 7}"#, 0, "7"),
        ("echo_string", r#"{"value": "a"}"#, 0, "a"),
        (
            "echo_u64",
            r#"{"value": "18446744073709551615"}"#,
            0,
            "\"18446744073709551615\"",
        ),
        (
            "folder",
            r#"{"skill_name": "calculator"}"#,
            0,
            r#"[["/skills/calculator"], 1]"#,
        ),
        ("answer", r#"{"text": "no", "fail": true}"#, 1, "no"),
        (
            "echo_u8",
            r#"{"value": 256}"#,
            2,
            "Argument 'value' is invalid: 256 is greater than the maximum of 255",
        ),
    ] {
        let run = program.run(&["--config", "skillhost.toml", "call", tool, arguments]);
        let printed = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(run.code, code, "{tool} {arguments}: {printed}");
        assert!(printed.contains(stdout), "{tool} {arguments}: {printed}");
    }
    let log = std::fs::read_to_string(program.folder.path().join("audit.jsonl")).unwrap();
    let records: Vec<Value> = log.lines().map(parse).collect();
    let outcomes: Vec<(&str, &str)> = records
        .iter()
        .map(|record| {
            let text = |key: &str| record[key].as_str().unwrap();
            (text("tool"), text("outcome"))
        })
        .collect();
    assert_eq!(
        outcomes,
        [
            ("echo_u8", "output"),
            ("echo_string", "output"),
            ("echo_u64", "output"),
            ("folder", "output"),
            ("answer", "failed"),
            ("echo_u8", "refused"),
        ]
    );
    assert_eq!(records[3]["skill"], "calculator");
}

#[test]
fn model_calls_functions_by_message() {
    let call = json!({
        "role": "assistant",
        "tool_calls": [{
            "id": "call_1",
            "type": "function",
            "function": {
                "name": "echo_record",
                "arguments": "{\"value\": {\"x\": 1, \"y\": 2}}",
            },
        }],
    });
    let run = program().run_with(
        &[
            "--config",
            "skillhost.toml",
            "respond",
            "--format",
            "openai",
        ],
        &call.to_string(),
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        parse(&run.stdout)[0]["content"],
        r#"{"x": 1, "y": 2, "text_beside": null}"#
    );
    for format in ["openai", "responses", "anthropic", "gemini", "mcp"] {
        let run = program().run(&["--config", "skillhost.toml", "tools", "--format", format]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.contains("\"echo_bare_results\""), "{format}");
    }
}

#[test]
fn only_records_are_structured_content_over_mcp() {
    let folders = Folders::new();
    std::fs::write(folders.outside.join("typed.wasm"), guest_bytes()).unwrap();
    let mut session = Session::open(
        builder()
            .skills(repository().join("skills"))
            .tools(&folders.outside)
            .grant("typed.wasm", Grant::new().skills(["calculator"]).unwrap()),
    );
    let mut call = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        session.ask("tools/call", params).unwrap()
    };
    let point = json!({"x": 1, "y": -2, "text_beside": "é"});
    let answer = call("echo_record", json!({"value": point}));
    assert_eq!(answer["structuredContent"], point);
    assert_eq!(parse(answer["content"][0]["text"].as_str().unwrap()), point);
    let answer = call("echo_list", json!({"value": ["a"]}));
    assert_eq!(answer["structuredContent"], Value::Null);
    assert_eq!(answer["content"][0]["text"], r#"["a"]"#);
    let answer = call("fail_with_a_case", json!({"text": ""}));
    assert_eq!(answer["isError"], true);
    assert_eq!(answer["content"][0]["text"], "\"too_late\"");
    let (tools, _) = session.list_all("tools/list", json!({}), "tools");
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(
        tool("echo_record")["outputSchema"]["required"],
        json!(["x", "y"])
    );
    assert_eq!(tool("echo_list").get("outputSchema"), None);
}
