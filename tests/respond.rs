//! Models' tool calls and the messages that answer them, in every format; and
//! the definitions that go with them.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use skillhost::exchange::{self, Format, MAX_CALLS};
use skillhost::{Host, Limits, Load};

use crate::support::folders::Folders;
use crate::support::program::{Program, run_in_repository};
use crate::support::{
    block_on, build, builder_with_guests, cache, model_text, on_two_threads, repository,
};

const FORMATS: [&str; 4] = ["openai", "responses", "anthropic", "gemini"];

/// The skill that the vectors are about.
fn program() -> Program {
    let program = Program::new();
    let skill = "---\nname: calculator\ndescription: Adds numbers.\n---\n# Calculator\n";
    program.write("skills/calculator/SKILL.md", skill);
    program.write("skills/calculator/examples/basic.py", "print(1)\n");
    program
}

fn read(path: &str) -> Value {
    let path = repository().join("tests/vectors").join(path);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A chat completion's message with these calls, all of one tool.
fn message<'a>(tool: &str, arguments: impl IntoIterator<Item = &'a Value>) -> String {
    let calls = arguments.into_iter().enumerate().map(|(index, arguments)| {
        json!({
            "id": format!("call_{index}"),
            "type": "function",
            "function": {"name": tool, "arguments": arguments.to_string()},
        })
    });
    json!({"role": "assistant", "tool_calls": calls.collect::<Value>()}).to_string()
}

#[test]
fn messages_in_files_are_answered_as_the_files_say() {
    for format in FORMATS {
        let cases = read(&format!("respond/{format}.json"));
        let cases = cases["cases"].as_array().unwrap();
        let lines: Vec<String> = cases.iter().map(|case| case["input"].to_string()).collect();
        let run = program().run_with(&["respond", "--format", format], &lines.join("\n"));
        let answers: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(answers.len(), cases.len(), "{format}: {}", run.stderr);
        let mut complaints = run.stderr.lines();
        for (index, (case, answer)) in cases.iter().zip(answers).enumerate() {
            let mut expected = case["expected"].clone();
            if let Some(Value::String(error)) = expected.get_mut("error") {
                *error = format!("line {}: {error}", index + 1);
                assert_eq!(
                    complaints.next(),
                    Some(format!("skillhost: {error}").as_str())
                );
            }
            let answer: Value = serde_json::from_str(answer).unwrap();
            assert_eq!(answer, expected, "{format}: {}", case["name"]);
        }
        assert_eq!((complaints.next(), run.code), (None, 2), "{format}");
    }
}

#[test]
fn a_message_alone_may_go_over_many_lines() {
    for format in FORMATS {
        let cases = read(&format!("respond/{format}.json"));
        let case = &cases["cases"][0];
        let input = format!("{:#}\n", case["input"]);
        assert!(input.lines().count() > 10);
        let run = program().run_with(&["respond", "--format", format], &input);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{format}");
        let answer: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(answer, case["expected"], "{format}");
    }
}

#[test]
fn each_line_is_answered_before_the_next_is_read() {
    let program = program();
    let mut child = Command::new(env!("CARGO_BIN_EXE_skillhost"))
        .args(["respond", "--format", "openai"])
        .current_dir(program.folder.path())
        .env("SKILLHOST_CACHE", cache())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let call = message("get_skill", [&json!({"skill_name": "calculator"})]);
    for (line, start) in [
        (
            call.as_str(),
            "[{\"role\": \"tool\", \"tool_call_id\": \"call_0\"",
        ),
        (
            "{\"role\": \"assis",
            "{\"error\": \"line 2: the message is not JSON",
        ),
        ("", ""),
        ("\u{1}", "{\"error\": \"line 4: the message is not JSON"),
        (
            call.as_str(),
            "[{\"role\": \"tool\", \"tool_call_id\": \"call_0\"",
        ),
    ] {
        writeln!(stdin, "{line}").unwrap();
        if !start.is_empty() {
            let answer = answers.next().unwrap().unwrap();
            assert!(answer.starts_with(start), "{line}: {answer}");
        }
    }
    drop(stdin);
    assert!(answers.next().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn nothing_more_is_run_when_nobody_reads() {
    let program = program();
    program.write("skills/calculator/large.txt", "x".repeat(1 << 20));
    let mut child = Command::new(env!("CARGO_BIN_EXE_skillhost"))
        .args(["respond", "--format", "openai", "--audit", "audit.jsonl"])
        .current_dir(program.folder.path())
        .env("SKILLHOST_CACHE", cache())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let large = json!({"skill_name": "calculator", "file_path": "large.txt"});
    let line = message("read_file_in_skill", [&large]);
    let lines = format!("{line}\n").repeat(20);
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    let audit = fs::read_to_string(program.folder.path().join("audit.jsonl")).unwrap();
    assert_eq!(audit.lines().count(), 1, "{audit}");
}

#[test]
fn every_call_is_in_the_audit_log_with_its_id() {
    let program = program();
    let calls = [
        ("a", "get_skill", "{\"skill_name\": \"calculator\"}"),
        ("b", "get_skill", "{\"skill_na"),
        ("c", "none", "{}"),
    ];
    let calls = calls.map(|(id, name, arguments)| {
        json!({"id": id, "function": {"name": name, "arguments": arguments}})
    });
    let line = json!({"tool_calls": calls}).to_string();
    let words = ["respond", "--format", "openai", "--audit", "audit.jsonl"];
    let run = program.run_with(&words, &line);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let audit = fs::read_to_string(program.folder.path().join("audit.jsonl")).unwrap();
    let mut records: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // They run beside each other.
    records.sort_by_key(|record| record["id"].to_string());
    let seen: Vec<Value> = records
        .iter()
        .map(|record| {
            json!([
                record["id"],
                record["tool"],
                record["outcome"],
                record["reason"]
            ])
        })
        .collect();
    assert_eq!(
        seen,
        [
            json!(["a", "get_skill", "output", null]),
            json!(["b", "get_skill", "refused", "arguments"]),
            json!(["c", "none", "refused", "unknown-tool"]),
        ]
    );
}

#[test]
fn a_transcript_shows_the_calls_and_their_results_on_stderr() {
    let arguments = json!({"skill_name": "calculator", "file_path": "examples/basic.py"});
    let line = message("read_file_in_skill", [&arguments, &json!("\u{1b}[2J")]);
    let words = ["respond", "--format", "openai", "--transcript"];
    let run = program().run_with(&words, &line);
    assert_eq!(
        run.stderr,
        "[Tool Call] read_file_in_skill(skill_name=\"calculator\", file_path=\"examples/basic.py\")\n\
         [Tool Call] read_file_in_skill(\"\\u001b[2J\")\n\
         [Tool Result] print(1)\n\
         [Tool Result] ERROR: the arguments are not a JSON object\n"
    );
}

#[test]
fn hostile_messages_are_refused_or_answered_and_the_next_is_served() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let many = vec![json!({}); MAX_CALLS + 1];
    let long = "x".repeat(1 << 20);
    let deep_input = format!(
        "{{\"role\": \"assistant\", \"content\": [{{\"type\": \"tool_use\", \"id\": \"t\", \
         \"name\": \"get_skill\", \"input\": {{\"skill_name\": {}}}}}]}}",
        deep(100_000)
    );
    for (format, line, starts) in [
        (
            "openai",
            message("get_skill", &many),
            "{\"error\": \"line 1: the message has more than 512 calls\"}",
        ),
        (
            "openai",
            format!(
                "{{\"role\": \"assistant\", \"content\": {}}}",
                deep(1_000_000)
            ),
            "[]",
        ),
        ("openai", deep(1_000_000), "{\"error\": "),
        ("openai", "{\"a\":".repeat(1_000_000), "{\"error\": "),
        (
            "openai",
            format!("{{\"role\": \"assistant\", \"role\": \"{long}\"}}"),
            "{\"error\": \"line 1: the message cannot be answered: duplicate field `role`",
        ),
        (
            "openai",
            format!("{{\"role\": [\"{long}\"]}}"),
            "{\"error\": \"line 1: the message cannot be answered: invalid type",
        ),
        (
            "openai",
            format!("{{\"tool_calls\": \"{long}\"}}"),
            "{\"error\": \"line 1: the message cannot be answered: invalid type: string \\\"xxx",
        ),
        (
            "openai",
            message(&long, [&json!({})]),
            "[{\"role\": \"tool\", \"tool_call_id\": \"call_0\", \"name\": \"xxx",
        ),
        (
            "openai",
            message("get_skill", [&json!({"skill_name": long})]),
            "[{\"role\": \"tool\", \"tool_call_id\": \"call_0\", \"name\": \"get_skill\", \
             \"content\": \"ERROR: the arguments are larger than 1048576 bytes\"}]",
        ),
        (
            "anthropic",
            deep_input,
            "[{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \
             \"t\", \"content\": \"ERROR: the arguments are not JSON: recursion limit exceeded",
        ),
        (
            "responses",
            format!("[{}]", vec!["{\"type\": \"x\"}"; 200_000].join(", ")),
            "[]",
        ),
        (
            "gemini",
            format!("[{}]", vec!["{}"; 200_000].join(", ")),
            "{\"error\": ",
        ),
    ] {
        let short: String = line.chars().take(60).collect();
        let start = Instant::now();
        // What may be the beginning of a longer message stands alone.
        let input = format!("{line}\n");
        let run = program().run_with(&["respond", "--format", format], &input);
        assert!(run.stdout.starts_with(starts), "{short}: {run:?}");
        assert_eq!(run.stdout.lines().count(), 1, "{short}");
        assert!(run.stderr.len() < 1000, "{short}: {}", run.stderr);
        assert_eq!(run.code == 0, !starts.starts_with("{\"error\""), "{short}");
        assert!(start.elapsed() < Duration::from_secs(10), "{short}");
    }
}

#[test]
fn as_many_calls_as_a_message_may_have_are_answered_in_their_order() {
    let arguments: Vec<Value> = (0..MAX_CALLS)
        .map(|number| json!({"skill_name": format!("none-{number}")}))
        .collect();
    let line = message("get_skill", &arguments);
    let run = program().run_with(&["respond", "--format", "openai"], &line);
    let answers: Value = serde_json::from_str(&run.stdout).unwrap();
    let answers = answers.as_array().unwrap();
    assert_eq!((run.code, answers.len()), (0, MAX_CALLS));
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer["tool_call_id"], format!("call_{number}"));
        let content = answer["content"].as_str().unwrap();
        assert!(content.contains(&format!("'none-{number}'")), "{content}");
    }
}

/// A host whose guests may take so long, and that takes so many calls.
fn slow_host(folders: &Folders, time: Duration, calls: u32, queue: u32) -> Host {
    folders.write("a/SKILL.md", "# A\n");
    let (mut limits, mut load) = (Limits::default(), Load::default());
    limits.time = time;
    (load.calls, load.queue) = (calls, queue);
    let builder = builder_with_guests().skills(&folders.root);
    build(builder.limits(limits).load(load))
}

fn run(host: &Host, tool: &str, arguments: &[Value]) -> Vec<exchange::Answer> {
    let calls = Format::OpenAi.calls(&message(tool, arguments)).unwrap();
    on_two_threads(exchange::run(host, calls))
}

#[test]
fn calls_of_a_message_run_beside_each_other() {
    let folders = Folders::new();
    let time = Duration::from_millis(400);
    let host = slow_host(&folders, time, 64, 0);
    let start = Instant::now();
    let answers = run(
        &host,
        "raw_sleep",
        &vec![json!({"skill_name": "a", "path": ""}); 8],
    );
    assert!(start.elapsed() < time * 6, "{:?}", start.elapsed());
    assert_eq!(answers.len(), 8);
    for answer in answers {
        assert!(answer.failed);
        assert_eq!(
            answer.text,
            "ERROR: the tool 'raw_sleep' was stopped: it took longer than 400ms"
        );
    }
}

#[test]
fn a_message_never_finds_the_host_busy_with_its_own_calls() {
    let folders = Folders::new();
    for (calls, queue) in [(1, 0), (1, 1), (2, 3)] {
        let host = slow_host(&folders, Duration::from_secs(10), calls, queue);
        assert_eq!(host.capacity(), calls as usize);
        let answers = run(
            &host,
            "raw_read",
            &vec![json!({"skill_name": "a", "path": "SKILL.md"}); 40],
        );
        assert_eq!(answers.len(), 40);
        for answer in answers {
            assert_eq!((answer.text.as_str(), answer.failed), ("# A\n", false));
        }
    }
}

#[test]
fn answers_that_are_together_too_large_say_so() {
    let folders = Folders::new();
    let host = slow_host(&folders, Duration::from_secs(10), 2, 10);
    folders.write("a/large.txt", "x".repeat(15 << 20));
    folders.write("a/small.txt", "y");
    let file = |name: &str| json!({"skill_name": "a", "file_path": name});
    let mut arguments = vec![file("large.txt"); 5];
    arguments.push(file("small.txt"));
    let answers = run(&host, "read_file_in_skill", &arguments);
    let sizes: Vec<usize> = answers.iter().map(|answer| answer.text.len()).collect();
    assert_eq!(sizes[..4], [15 << 20; 4]);
    assert_eq!(
        answers[4].text,
        "ERROR: the results of this message are together larger than 67108864 bytes; read less \
         at a time"
    );
    assert!(answers[4].failed);
    assert_eq!(answers[5].text, "y");
}

#[test]
fn giving_up_on_a_message_stops_its_guests() {
    let folders = Folders::new();
    let host = slow_host(&folders, Duration::from_secs(10), 1, 0);
    on_two_threads(async {
        let sleep = json!({"skill_name": "a", "path": ""});
        let calls = Format::OpenAi.calls(&message("raw_sleep", [&sleep, &sleep]));
        let running = exchange::run(&host, calls.unwrap());
        let given_up = tokio::time::timeout(Duration::from_millis(50), running).await;
        assert!(given_up.is_err());
        let start = Instant::now();
        let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
        // There is one place, and nobody may wait for it.
        while host.call("raw_read", arguments.clone()).await.is_err() {
            assert!(start.elapsed() < Duration::from_secs(2));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn null_counts_as_absent_in_every_tool() {
    let program = program();
    let skills = program.folder.path().join("skills");
    let host = build(builder_with_guests().skills(skills));
    let mut seen = 0;
    for definition in host.definitions() {
        let given: Value = match definition.name.as_str() {
            "read_file_in_skill" => {
                json!({"skill_name": "calculator", "file_path": "examples/basic.py"})
            }
            "get_skill" | "read_skill" => json!({"skill_name": "calculator"}),
            "read_skill_file" => json!({"path": "examples/basic.py", "skill_name": "calculator"}),
            "list_skills" => json!({}),
            "count_lines" => json!({"skill_name": "calculator", "path": "examples/basic.py"}),
            // The test guests of attacks.
            _ => continue,
        };
        seen += 1;
        let mut with_nulls = given.clone();
        let properties = definition.input_schema["properties"].as_object().unwrap();
        for (name, _) in properties {
            let named = with_nulls.as_object_mut().unwrap();
            named.entry(name.clone()).or_insert(Value::Null);
        }
        let text = model_text(&host, &definition.name, given);
        assert!(!text.starts_with("ERROR"), "{text}");
        assert_eq!(model_text(&host, &definition.name, with_nulls), text);
    }
    assert_eq!(seen, 6);
}

#[test]
fn definitions_in_every_format_are_those_of_the_files() {
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
        assert_eq!(tools, read(&format!("tools/{file}.json")), "{file}");
    }
}

#[test]
fn definitions_for_mcp_are_those_that_the_server_lists() {
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
fn a_message_that_is_cut_anywhere_or_in_another_format_breaks_nothing() {
    const ALL: [Format; 4] = [
        Format::OpenAi,
        Format::Responses,
        Format::Anthropic,
        Format::Gemini,
    ];
    let (mut read_whole, mut refused) = (0, 0);
    for name in FORMATS {
        for case in read(&format!("respond/{name}.json"))["cases"]
            .as_array()
            .unwrap()
        {
            let message = case["input"].to_string();
            for format in ALL {
                read_whole += usize::from(format.calls(&message).is_ok());
            }
            for (end, _) in message.char_indices() {
                for format in ALL {
                    assert!(
                        format.calls(&message[..end]).is_err(),
                        "{}",
                        &message[..end]
                    );
                    refused += 1;
                }
            }
        }
    }
    assert!(
        read_whole > 40 && refused > 100_000,
        "{read_whole} {refused}"
    );
}

#[test]
fn openai_definitions_are_those_of_the_contracts() {
    for tool in read("tools/openai.json").as_array().unwrap() {
        let name = tool["function"]["name"].as_str().unwrap();
        assert_eq!(*tool, read(&format!("definitions/{name}.json")));
    }
}

/// What strict mode asks of a schema and of every schema in it.
fn assert_strict(schema: &Map<String, Value>, place: &str) {
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
    const OF_OBJECTS: [&str; 2] = ["required", "additionalProperties"];
    for keyword in schema.keys() {
        let known = KEYWORDS.contains(&keyword.as_str());
        assert!(
            known || OF_OBJECTS.contains(&keyword.as_str()),
            "{place}: `{keyword}`"
        );
    }
    assert!(
        schema.contains_key("type") != schema.contains_key("anyOf"),
        "{place}"
    );
    let is = |kind: &str| match &schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        one => one.is_some_and(|one| one == kind),
    };
    if is("object") {
        assert_eq!(
            schema.get("additionalProperties"),
            Some(&json!(false)),
            "{place}"
        );
        let properties = schema["properties"].as_object().unwrap();
        let names: Vec<&String> = properties.keys().collect();
        assert_eq!(schema["required"], json!(names), "{place}");
        for (name, property) in properties {
            assert_strict(property.as_object().unwrap(), &format!("{place}.{name}"));
        }
    }
    if is("array") {
        assert_strict(schema["items"].as_object().unwrap(), &format!("{place}[]"));
    }
    for choice in schema
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        assert_strict(choice.as_object().unwrap(), place);
    }
}

#[test]
fn strict_definitions_keep_strict_modes_rules_at_every_level() {
    let program = program();
    let skills = program.folder.path().join("skills");
    let host = build(builder_with_guests().skills(skills));
    for format in [Format::OpenAi, Format::Responses] {
        let mut definitions = host.definitions();
        let strict = format.strict_tools(&definitions).unwrap();
        let not_strict: Vec<_> = strict.not_strict.iter().map(|one| &*one.tool).collect();
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
            // What was optional takes null now; what was required is as it was.
            for (name, property) in schema["properties"].as_object().unwrap() {
                let given = &definition.input_schema;
                let required = given.get("required").and_then(Value::as_array);
                let required = required.is_some_and(|names| names.iter().any(|one| one == name));
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
fn without_skills_and_tools_there_is_nothing_to_declare() {
    let program = Program::new();
    program.write(
        "skillhost.toml",
        "disabled_tools = [\"read_file_in_skill\", \"get_skill\", \"read_skill_file\", \
         \"read_skill\", \"list_skills\"]\n",
    );
    for format in ["openai", "responses", "anthropic", "gemini", "mcp"] {
        let run = program.run(&["tools", "--format", format]);
        assert_eq!((run.code, run.stdout.as_str()), (0, "[]\n"), "{format}");
    }
}

#[test]
fn wrong_words_exit_with_2_and_what_cannot_be_loaded_with_4() {
    let program = program();
    for words in [
        &["respond"][..],
        &["respond", "--format", "mcp"],
        &["tools", "--format", "other"],
        &["tools", "--format", "gemini", "--strict"],
        &["tools", "--format", "mcp", "--strict"],
    ] {
        let run = program.run(words);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{words:?}");
        assert!(!run.stderr.is_empty(), "{words:?}");
    }
    let run = program.run(&["respond", "--format", "openai", "--skills", "none"]);
    assert_eq!((run.code, run.stdout.as_str()), (4, ""));
    let run = program.run(&["respond", "--format", "openai"]);
    assert_eq!(
        (run.code, run.stdout.as_str(), run.stderr.as_str()),
        (0, "", "")
    );
}

#[test]
fn a_program_answers_messages_without_the_command_line() {
    let program = program();
    let skills = program.folder.path().join("skills");
    let host = build(crate::support::builder().skills(skills));
    for (format, name) in [
        (Format::OpenAi, "openai"),
        (Format::Responses, "responses"),
        (Format::Anthropic, "anthropic"),
        (Format::Gemini, "gemini"),
    ] {
        for case in read(&format!("respond/{name}.json"))["cases"]
            .as_array()
            .unwrap()
        {
            let message = case["input"].to_string();
            let answer = block_on(exchange::respond(&host, format, &message));
            let answer = match answer {
                Ok(messages) => Value::from(messages),
                Err(error) => json!({"error": error.to_string()}),
            };
            assert_eq!(answer, case["expected"], "{name}: {}", case["name"]);
        }
    }
}
