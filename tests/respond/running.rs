//! Running the calls of a message: at the same time, with answers in order,
//! within limits.

use std::time::Duration;

use serde_json::{Value, json};
use skillhost::exchange::{self, Format, MAX_CALLS};
use skillhost::{Host, Limits, Load};

use super::{message, program};
use crate::support::folders::Folders;
use crate::support::watchdog::until;
use crate::support::{UNREACHED, build, builder_with_guests, model_text, on_two_threads};

#[test]
fn answers_max_calls_of_a_message_in_order() {
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

/// Makes a host with these limits on a guest's time, and on running and waiting calls.
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
fn calls_of_a_message_run_concurrently() {
    let folders = Folders::new();
    let sleeping = vec![json!({"skill_name": "a", "path": ""}); 8];
    let host = slow_host(&folders, UNREACHED, 64, 0);
    let calls = Format::OpenAi.calls(&message("raw_sleep", &sleeping));
    on_two_threads(async {
        tokio::select! {
            answers = exchange::run(&host, calls.unwrap()) => panic!("{answers:?}"),
            () = until("not all calls started", || host.occupancy().running == 8) => {}
        }
    });
    let host = slow_host(&folders, Duration::from_millis(400), 64, 0);
    let answers = run(&host, "raw_sleep", &sleeping);
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
fn calls_of_a_message_never_fail_as_busy() {
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
fn says_that_the_answers_together_are_too_large() {
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
fn cut_answer_says_in_its_text_what_is_left_out() {
    let folders = Folders::new();
    folders.write("a/lines.txt", "0123456789abcde\n".repeat(65));
    folders.write("a/long.txt", "漢".repeat(342));
    folders.write("a/whole.txt", "x".repeat(1024));
    folders.write("a/large.txt", "x".repeat(1 << 20));
    let builder = builder_with_guests().skills(&folders.root);
    let host = build(builder.clone().model_output(1024));
    let file = |name: &str| json!({"skill_name": "a", "file_path": name});
    let arguments = ["lines.txt", "long.txt", "whole.txt"].map(file);
    let answers = run(&host, "read_file_in_skill", &arguments);
    for (answer, kept, left, advice) in [
        (
            &answers[0],
            "0123456789abcde\n".repeat(64) + "\n",
            16,
            "read_skill_file reads",
        ),
        (
            &answers[1],
            "漢".repeat(341) + "\n\n",
            3,
            "the next line is longer",
        ),
    ] {
        let note = answer.text.strip_prefix(&kept).unwrap();
        assert!(note.starts_with("The answer above is cut"), "{note}");
        assert!(
            note.contains(&format!("{left} bytes are left out")),
            "{note}"
        );
        assert!(note.contains(advice) && !note.contains('\n'), "{note}");
        assert!(!answer.failed);
    }
    assert_eq!(answers[2].text, "x".repeat(1024));
    // Without `model_output`, no text is cut.
    let answers = run(&build(builder), "read_file_in_skill", &[file("large.txt")]);
    assert_eq!(answers[0].text, "x".repeat(1 << 20));
}

#[test]
fn dropped_message_stops_its_guests() {
    let folders = Folders::new();
    let host = slow_host(&folders, UNREACHED, 1, 0);
    on_two_threads(async {
        let sleep = json!({"skill_name": "a", "path": ""});
        let calls = Format::OpenAi.calls(&message("raw_sleep", [&sleep, &sleep]));
        tokio::select! {
            answers = exchange::run(&host, calls.unwrap()) => panic!("{answers:?}"),
            () = until("no guest started", || host.occupancy().memory > 0) => {}
        }
        until("the guest did not stop", || host.occupancy().running == 0).await;
        let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
        // The host has one slot and no queue.
        let read = host.call("raw_read", arguments).await;
        assert_eq!(read.unwrap().text(), "# A\n");
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
            "get_skill" | "read_skill" | "list_files_in_skill" => {
                json!({"skill_name": "calculator"})
            }
            "read_skill_file" => json!({"path": "examples/basic.py", "skill_name": "calculator"}),
            "list_skills" => json!({}),
            "count_lines" => json!({"skill_name": "calculator", "path": "examples/basic.py"}),
            // The tools of the hostile guests.
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
    assert_eq!(seen, 7);
}
