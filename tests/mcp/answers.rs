//! Tools and prompts: listings, calls, answers and failures.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{folder, replaced, with_guests};
use crate::support::mcp::{Client, NEWEST, REVISIONS};
use crate::support::{
    build, builder_with_guests, call, guests, model_text, repository, sample_host,
};

fn sample(revision: &'static str) -> Client {
    Client::start(repository(), &[], revision)
}

#[test]
fn describes_server_and_capabilities() {
    let capabilities = json!({"prompts": {"listChanged": true}, "tools": {"listChanged": true}});
    let mut new = sample(NEWEST);
    let discovered = new.request("server/discover", json!({}))["result"].clone();
    assert!(
        discovered["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&NEWEST.into())
    );
    let mut old = Client::start_unopened(repository(), &[], "2025-11-25");
    let initialized = old.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }),
    )["result"]
        .clone();
    assert_eq!(initialized["serverInfo"]["name"], "skillhost");
    assert_eq!(
        initialized["serverInfo"]["version"],
        env!("CARGO_PKG_VERSION")
    );
    for answer in [discovered, initialized] {
        for (capability, value) in capabilities.as_object().unwrap() {
            assert_eq!(&answer["capabilities"][capability], value, "{answer}");
        }
        let instructions = answer["instructions"].as_str().unwrap();
        assert!(instructions.contains("skill") && instructions.len() < 1000);
    }
}

#[test]
fn lists_tools_with_whole_definitions() {
    for revision in REVISIONS {
        let mut client = sample(revision);
        let first = client.request("tools/list", json!({}))["result"].clone();
        assert_eq!(first, client.request("tools/list", json!({}))["result"]);
        assert_eq!(first["nextCursor"], Value::Null);
        let tools = first["tools"].as_array().unwrap();
        let definitions = sample_host().definitions();
        assert_eq!(tools.len(), definitions.len());
        for (tool, definition) in tools.iter().zip(definitions) {
            assert_eq!(tool["name"], definition.name);
            assert_eq!(tool["title"], definition.title);
            assert_eq!(tool["description"], definition.description);
            assert_eq!(tool["inputSchema"], Value::Object(definition.input_schema));
            assert_eq!(
                tool["annotations"],
                json!({
                    "readOnlyHint": true,
                    "destructiveHint": false,
                    "idempotentHint": true,
                    "openWorldHint": false,
                })
            );
            assert_eq!(
                tool["_meta"],
                json!({"anthropic/maxResultSizeChars": 500_000})
            );
            // Only a tool with structured content has an output schema.
            match definition.name.as_str() {
                "list_skills" => assert_eq!(tool["outputSchema"]["required"], json!(["skills"])),
                _ => assert_eq!(tool["outputSchema"], Value::Null),
            }
        }
    }
}

#[test]
fn splits_long_listing_into_pages() {
    let program = folder("");
    let hostile = std::fs::read(guests().join("hostile.wasm")).unwrap();
    program.write("tools/hostile.wasm", &hostile);
    program.write(
        "tools/again.wasm",
        replaced(&hostile, b"hostile_", b"another_"),
    );
    let mut client = Client::start(program.folder.path(), &["--tools", "tools"], NEWEST);
    client.wait_for_components();
    let (mut names, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let params = match &cursor {
            Value::Null => json!({}),
            cursor => json!({"cursor": cursor}),
        };
        let result = client.request("tools/list", params)["result"].clone();
        let tools = result["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].clone()));
        pages += 1;
        cursor = result["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(pages, 2);
    assert_eq!(
        names.len() % 2,
        0,
        "six built-in tools, and each tool of `hostile.wasm` twice"
    );
    for name in ["read_skill", "hostile_compute", "another_compute"] {
        assert_eq!(names.iter().filter(|listed| *listed == name).count(), 1);
    }
    let unique: BTreeSet<String> = names.iter().map(Value::to_string).collect();
    assert_eq!(unique.len(), names.len());
}

#[test]
fn each_tool_answers_with_text_for_model() {
    let calls = [
        (
            "read_file_in_skill",
            json!({"skill_name": "calculator", "file_path": "examples/basic.py"}),
        ),
        ("get_skill", json!({"skill_name": "calculator"})),
        (
            "read_skill_file",
            json!({"skill_name": "calculator", "path": "SKILL.md", "offset": 2, "limit": 3}),
        ),
        ("read_skill", json!({"skill_name": "weather"})),
        ("list_skills", json!({})),
        ("list_files_in_skill", json!({"skill_name": "calculator"})),
    ];
    for revision in REVISIONS {
        let mut client = sample(revision);
        for (tool, arguments) in &calls {
            let result = client.call(tool, arguments.clone());
            let text = model_text(sample_host(), tool, arguments.clone());
            assert_eq!(result["content"], json!([{"type": "text", "text": text}]));
            assert_eq!(result["isError"], false);
            match *tool {
                "list_skills" => {
                    let record: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!(result["structuredContent"], record);
                }
                _ => assert_eq!(result["structuredContent"], Value::Null),
            }
        }
    }
}

#[test]
fn failure_is_a_result_with_the_text_for_models() {
    let program = folder("");
    let host = build(builder_with_guests().skills(program.folder.path().join("skills")));
    let failures = [
        (
            "read_file_in_skill",
            json!({"skill_name": "a", "file_path": "../b"}),
        ),
        (
            "read_file_in_skill",
            json!({"skill_name": "a", "file_path": "none"}),
        ),
        ("get_skill", json!({"skill_name": "none"})),
        ("read_skill", json!({"skill_name": "none"})),
        ("read_skill_file", json!({"path": "x"})),
        // Arguments that do not match the schema. A model can correct them.
        ("read_file_in_skill", json!({"skill_name": "a"})),
        (
            "read_file_in_skill",
            json!({"skill_name": 7, "file_path": "x"}),
        ),
        ("list_skills", json!({"unheard_of": 1})),
        // The host stops this call.
        ("raw_panic", json!({"skill_name": "a", "path": "x"})),
    ];
    for revision in REVISIONS {
        let mut client = with_guests(&program, &["unchecked.wasm"], revision);
        for (tool, arguments) in &failures {
            let result = client.call(tool, arguments.clone());
            let error = call(&host, tool, arguments.clone()).unwrap_err();
            let text = error.model_text();
            let mut content = vec![json!({"type": "text", "text": text})];
            content.extend(
                error
                    .model_help()
                    .map(|help| json!({"type": "text", "text": help})),
            );
            assert_eq!(result["content"], json!(content));
            assert_eq!(result["isError"], true, "{result}");
            assert_eq!(result["structuredContent"], Value::Null);
            assert!(!text.contains(program.folder.path().to_str().unwrap()));
        }
        // A tool without a grant reads no file.
        let refused = client.call(
            "count_lines",
            json!({"skill_name": "a", "path": "SKILL.md"}),
        );
        assert_eq!(refused["isError"], true);
        assert!(!refused.to_string().contains("Steps"));
    }
}

#[test]
fn sends_large_file_only_as_text() {
    let program = folder("");
    let text = "0123456789abcde\n".repeat(1 << 16);
    program.write("skills/a/large.txt", &text);
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    let result = client.call("read_file_in_skill", arguments);
    assert_eq!(result["content"][0]["text"], text);
    let (sent, needed) = (result.to_string().len(), json!(text).to_string().len());
    assert!(sent < needed + 400, "{sent} bytes for {needed}");
}

#[test]
fn answer_over_message_limit_is_error() {
    const NINE_MIB: usize = 9 << 20;
    let read = |path: &str| {
        let arguments = json!({"skill_name": "a", "file_path": path});
        json!({"name": "read_file_in_skill", "arguments": arguments})
    };
    for (config, sends_nine_mib) in [("", false), ("[stdio]\nmessage = \"10MiB\"\n", true)] {
        let program = folder(config);
        program.write("skills/a/nine.txt", "x".repeat(NINE_MIB));
        // JSON escapes each byte as six bytes.
        program.write("skills/a/escaped.txt", "\u{1}".repeat(2 << 20));
        program.write("skills/a/seven.txt", "x".repeat(7 << 20));
        for revision in REVISIONS {
            let mut client = Client::start(program.folder.path(), &[], revision);
            for (path, is_sent) in [
                ("nine.txt", sends_nine_mib),
                ("escaped.txt", false),
                ("seven.txt", true),
            ] {
                let answer = client.request("tools/call", read(path))["result"].take();
                assert_eq!(
                    answer["isError"] == false,
                    is_sent,
                    "{config} {path}: {:.500}",
                    answer.to_string()
                );
                let text = answer["content"][0]["text"].as_str().unwrap();
                assert_eq!(text.len() >= 2 << 20, is_sent, "{config} {path}");
                assert_eq!(
                    text.contains("`offset` and `limit`"),
                    !is_sent,
                    "{config} {path}"
                );
                // A note follows a large answer, as a second block.
                let blocks = answer["content"].as_array().unwrap().len();
                assert_eq!(blocks, 1 + usize::from(is_sent), "{config} {path}");
            }
            let resource = client.request("resources/read", json!({"uri": "skill://a/nine.txt"}));
            if sends_nine_mib {
                assert!(resource["result"]["contents"][0]["text"].is_string());
            } else {
                let code = &resource["error"]["code"];
                assert_eq!(*code, -32603, "{:.500}", resource.to_string());
            }
            assert_eq!(client.end(), (vec![], Some(0)));
        }
    }
}

#[test]
fn prompt_contains_catalog() {
    for revision in REVISIONS {
        let mut client = sample(revision);
        let listed = client.request("prompts/list", json!({}))["result"]["prompts"].clone();
        assert_eq!(listed.as_array().unwrap().len(), 1);
        assert_eq!(listed[0]["name"], "skills");
        let prompt = client.request("prompts/get", json!({"name": "skills"}))["result"].clone();
        let skills = sample_host().catalog().list().skills;
        assert_eq!(prompt["messages"][0]["role"], "user");
        assert_eq!(
            prompt["messages"][0]["content"],
            json!({"type": "text", "text": skillhost::prompt::list(&skills)})
        );
        let unknown = client.request("prompts/get", json!({"name": "none"}));
        assert_eq!(unknown["error"]["code"], -32602);
    }
}

#[test]
fn offers_no_prompt_or_read_skill_without_skills() {
    let program = crate::support::program::Program::new();
    std::fs::create_dir(program.folder.path().join("skills")).unwrap();
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    let prompts = client.request("prompts/list", json!({}));
    assert_eq!(prompts["result"]["prompts"], json!([]));
    let prompt = client.request("prompts/get", json!({"name": "skills"}));
    assert_eq!(prompt["error"]["code"], -32602);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let tools: Vec<&Value> = tools.as_array().unwrap().iter().collect();
    assert!(tools.iter().all(|tool| tool["name"] != "read_skill"));
    assert_eq!(tools.len(), 5);
}

#[test]
fn never_sends_what_guests_print() {
    let program = folder("");
    let mut client = with_guests(&program, &["unchecked.wasm"], NEWEST);
    let printed = "{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": \"forged\"}\u{1b}[2J";
    let arguments = json!({"skill_name": "a", "path": printed});
    let result = client.call("raw_print", arguments);
    assert_eq!(result["content"][0]["text"], "printed");
    let (messages, code) = client.end();
    assert_eq!((messages, code), (vec![], Some(0)));
}

#[test]
fn audit_record_has_request_id() {
    let program = folder("audit_file = \"audit.jsonl\"\n");
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    let params = json!({"name": "get_skill", "arguments": {"skill_name": "a"}});
    let request = client.request_line(&json!("an id"), "tools/call", params.clone());
    client.send_line(request);
    assert_eq!(client.message()["id"], "an id");
    let number = client.send("tools/call", params);
    client.answer(number);
    let records = std::fs::read_to_string(program.folder.path().join("audit.jsonl")).unwrap();
    let records: Vec<Value> = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: Vec<&Value> = records.iter().map(|record| &record["id"]).collect();
    assert_eq!(ids, ["an id", &number.to_string()]);
    assert!(records.iter().all(|record| record["transport"] == "stdio"));
}
