//! Tools' definitions in models' formats.

use serde_json::{Map, Value, json};
use skillhost::exchange::Format;

use super::{program, vector};
use crate::support::program::{Program, run_in_repository};
use crate::support::{build, builder_with_guests};

#[test]
fn prints_definitions_of_vectors_in_every_format() {
    for (file, words) in [
        ("openai", &["tools"][..]),
        ("openai", &["tools", "--format", "openai"]),
        (
            "openai_strict",
            &["tools", "--format", "openai", "--strict"],
        ),
        ("responses", &["tools", "--format", "responses"]),
        (
            "responses_strict",
            &["tools", "--format", "responses", "--strict"],
        ),
        ("anthropic", &["tools", "--format", "anthropic"]),
        ("gemini", &["tools", "--format", "gemini"]),
        ("mcp", &["tools", "--format", "mcp"]),
    ] {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let run = run_in_repository(&words);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{file}");
        let tools: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(tools, vector(&format!("tools/{file}.json")), "{file}");
    }
}

#[test]
fn definitions_for_mcp_match_the_servers_list() {
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    let input: String = messages
        .iter()
        .map(|message| format!("{message}\n"))
        .collect();
    let program = program();
    let served = program.run_with(&["serve"], &input);
    let answers = served
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let listed = answers
        .filter(|answer: &Value| answer["id"] == 2)
        .map(|answer| answer["result"]["tools"].clone());
    let printed = program.run(&["tools", "--format", "mcp"]);
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(listed.collect::<Vec<_>>(), [printed], "{}", served.stderr);
}

#[test]
fn openai_definitions_match_the_contracts() {
    for tool in vector("tools/openai.json").as_array().unwrap() {
        let name = tool["function"]["name"].as_str().unwrap();
        assert_eq!(*tool, vector(&format!("definitions/{name}.json")));
    }
}

/// Checks the rules of strict mode on a schema and on every schema in it.
fn assert_strict(schema: &Map<String, Value>, path: &str) {
    const KEYWORDS: [&str; 16] = [
        "type",
        "description",
        "title",
        "enum",
        "pattern",
        "format",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "minItems",
        "maxItems",
        "items",
        "anyOf",
        "properties",
    ];
    const OBJECT_KEYWORDS: [&str; 2] = ["required", "additionalProperties"];
    for keyword in schema.keys() {
        let known = KEYWORDS.contains(&keyword.as_str());
        assert!(
            known || OBJECT_KEYWORDS.contains(&keyword.as_str()),
            "{path}: `{keyword}`"
        );
    }
    assert!(
        schema.contains_key("type") != schema.contains_key("anyOf"),
        "{path}"
    );
    let has_type = |kind: &str| match &schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|listed| listed == kind),
        single => single.is_some_and(|single| single == kind),
    };
    if has_type("object") {
        assert_eq!(
            schema.get("additionalProperties"),
            Some(&json!(false)),
            "{path}"
        );
        let properties = schema["properties"].as_object().unwrap();
        let names: Vec<&String> = properties.keys().collect();
        assert_eq!(schema["required"], json!(names), "{path}");
        for (name, property) in properties {
            assert_strict(property.as_object().unwrap(), &format!("{path}.{name}"));
        }
    }
    if has_type("array") {
        assert_strict(schema["items"].as_object().unwrap(), &format!("{path}[]"));
    }
    for choice in schema
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        assert_strict(choice.as_object().unwrap(), path);
    }
}

#[test]
fn strict_definitions_follow_the_rules_at_every_level() {
    let program = program();
    let skills = program.folder.path().join("skills");
    let host = build(builder_with_guests().skills(skills));
    for format in [Format::OpenAi, Format::Responses] {
        let mut definitions = host.definitions();
        let strict = format.strict_tools(&definitions).unwrap();
        let not_strict: Vec<_> = strict.not_strict.iter().map(|entry| &*entry.tool).collect();
        assert_eq!(not_strict, ["echo_tuple"]);
        definitions.retain(|definition| definition.name != "echo_tuple");
        let strict = format.strict_tools(&definitions).unwrap();
        assert_eq!(strict.not_strict, []);
        let tools = strict.tools.as_array().unwrap();
        assert_eq!(tools.len(), definitions.len());
        for (tool, definition) in tools.iter().zip(definitions) {
            let function = tool.get("function").unwrap_or(tool);
            assert_eq!(function["strict"], true);
            let schema = function["parameters"].as_object().unwrap();
            assert_eq!(schema["type"], "object");
            assert_strict(schema, &definition.name);
            // Optional properties accept null; required ones are unchanged.
            for (name, property) in schema["properties"].as_object().unwrap() {
                let original = &definition.input_schema;
                let required = original.get("required").and_then(Value::as_array);
                let required =
                    required.is_some_and(|names| names.iter().any(|listed| listed == name));
                let kinds = property["type"].as_array();
                let nullable = kinds.is_some_and(|kinds| kinds.contains(&json!("null")));
                assert_ne!(required, nullable, "{}.{name}", definition.name);
            }
        }
    }
    assert_eq!(Format::Anthropic.strict_tools(&host.definitions()), None);
    assert_eq!(Format::Gemini.strict_tools(&host.definitions()), None);
}

#[test]
fn prints_empty_definitions_without_tools() {
    let program = Program::new();
    program.write(
        "skillhost.toml",
        "disabled_tools = [\"read_file_in_skill\", \"get_skill\", \"read_skill_file\", \
         \"read_skill\", \"list_skills\", \"list_files_in_skill\"]\n",
    );
    for format in ["openai", "responses", "anthropic", "gemini", "mcp"] {
        let run = program.run(&["tools", "--format", format]);
        assert_eq!((run.code, run.stdout.as_str()), (0, "[]\n"), "{format}");
    }
}
