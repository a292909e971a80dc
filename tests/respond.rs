//! Models' tool calls and the messages that answer them, in every format.

mod definitions;
mod running;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use skillhost::exchange::{self, Format, MAX_CALLS};

use crate::support::process::Process;
use crate::support::program::Program;
use crate::support::{block_on, build, cache, repository};

/// Returns a program with the skill that the vectors name.
fn program() -> Program {
    let program = Program::new();
    let skill = "---\nname: calculator\ndescription: Adds numbers.\n---\n# Calculator\n";
    program.write("skills/calculator/SKILL.md", skill);
    program.write("skills/calculator/examples/basic.py", "print(1)\n");
    program
}

fn vector(path: &str) -> Value {
    let path = repository().join("tests/vectors").join(path);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns a chat completion's message with one call of `tool` for each of `arguments`.
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
fn answers_the_messages_of_the_vectors() {
    for format in Format::ALL.map(Format::name) {
        let cases = vector(&format!("respond/{format}.json"));
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
fn reads_a_single_message_over_many_lines() {
    for format in Format::ALL.map(Format::name) {
        let cases = vector(&format!("respond/{format}.json"));
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
fn answers_each_line_before_it_reads_the_next() {
    let program = program();
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
    command
        .args(["respond", "--format", "openai"])
        .current_dir(program.folder.path())
        .env("SKILLHOST_CACHE", cache())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = Process::start(&mut command);
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
    assert_eq!(child.wait().code(), Some(2));
}

#[test]
fn runs_no_more_calls_after_stdout_closes() {
    let program = program();
    program.write("skills/calculator/large.txt", "x".repeat(1 << 20));
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
    command
        .args(["respond", "--format", "openai", "--audit", "audit.jsonl"])
        .current_dir(program.folder.path())
        .env("SKILLHOST_CACHE", cache())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Process::start(&mut command);
    drop(child.stdout.take());
    let large = json!({"skill_name": "calculator", "file_path": "large.txt"});
    let line = message("read_file_in_skill", [&large]);
    let lines = format!("{line}\n").repeat(20);
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let output = child.output();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    let audit = fs::read_to_string(program.folder.path().join("audit.jsonl")).unwrap();
    assert_eq!(audit.lines().count(), 1, "{audit}");
}

#[test]
fn audit_log_has_every_call_with_id() {
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
    // The calls run at the same time, so the order of their records varies.
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
fn transcript_shows_calls_and_their_results_on_stderr() {
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
fn answers_each_hostile_message_in_one_line() {
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
        // The line is the whole message, although it may look like the start of a longer one.
        let input = format!("{line}\n");
        let run = program().run_with(&["respond", "--format", format], &input);
        assert!(run.stdout.starts_with(starts), "{short}: {run:?}");
        assert_eq!(run.stdout.lines().count(), 1, "{short}");
        assert!(run.stderr.len() < 1000, "{short}: {}", run.stderr);
        assert_eq!(run.code == 0, !starts.starts_with("{\"error\""), "{short}");
    }
}

#[test]
fn refuses_truncated_and_foreign_messages() {
    let (mut accepted, mut refused) = (0, 0);
    for format in Format::ALL {
        for case in vector(&format!("respond/{}.json", format.name()))["cases"]
            .as_array()
            .unwrap()
        {
            let message = case["input"].to_string();
            for format in Format::ALL {
                accepted += usize::from(format.calls(&message).is_ok());
            }
            for (end, _) in message.char_indices() {
                for format in Format::ALL {
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
    assert!(accepted > 40 && refused > 100_000, "{accepted} {refused}");
}

#[test]
fn bad_usage_and_loading_errors_set_exit_codes() {
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
fn library_answers_messages_as_command_line_does() {
    let program = program();
    let skills = program.folder.path().join("skills");
    let host = build(crate::support::builder().skills(skills));
    for format in Format::ALL {
        let name = format.name();
        for case in vector(&format!("respond/{name}.json"))["cases"]
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
