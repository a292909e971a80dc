//! Concurrent calls, cancellation and progress.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{folder, open_session, with_guests};
use crate::support::mcp::{Client, NEWEST, REVISIONS, server};
use crate::support::process::Process;
use crate::support::watchdog::{join, patience, wait_until};

fn arguments() -> Value {
    json!({"skill_name": "a", "path": ""})
}

#[test]
fn cancelled_call_stops_without_answer() {
    let program = folder("audit_file = \"audit.jsonl\"\n[limits]\ntime = \"60m\"\n");
    let audit = program.folder.path().join("audit.jsonl");
    let cancelled = || {
        let records = fs::read_to_string(&audit).unwrap_or_default();
        records.matches("\"cancelled\"").count()
    };
    for revision in REVISIONS {
        let mut client = with_guests(&program, &["unchecked.wasm"], revision);
        for tool in ["raw_loop", "raw_sleep"] {
            let before = cancelled();
            let id = client.start_calls(tool, &arguments(), 1)[0];
            client.notify("notifications/cancelled", json!({"requestId": id}));
            // The record is written when the guest is gone.
            wait_until(&format!("{tool} still runs"), || cancelled() > before);
            // The next message is the answer to the next request.
            let next = client.send("tools/list", json!({}));
            assert_eq!(client.message()["id"], next);
        }
    }
}

#[test]
fn long_call_sends_requested_progress() {
    let program = folder("[limits]\ntime = \"2500ms\"\n");
    let reports_twice = |revision| {
        let mut client = with_guests(&program, &["unchecked.wasm"], revision);
        // Compile the tool, so that later calls are quick.
        client.call("list_skills", json!({}));
        let silent = client.send(
            "tools/call",
            json!({"name": "raw_sleep", "arguments": arguments()}),
        );
        let reported = client.send(
            "tools/call",
            json!({
                "name": "raw_sleep",
                "arguments": arguments(),
                "_meta": {"progressToken": "a token"},
            }),
        );
        let quick = client.send(
            "tools/call",
            json!({"name": "list_skills", "_meta": {"progressToken": "none"}}),
        );
        for id in [quick, silent, reported] {
            client.answer(id);
        }
        let mut reports = Vec::new();
        while client.unclaimed_count("notifications/progress") > 0 {
            reports.push(client.message_with_method("notifications/progress")["params"].clone());
        }
        assert_eq!(reports.len(), 2, "{reports:?}");
        let progress = |report: &Value| report["progress"].as_f64().unwrap();
        assert!(progress(&reports[0]) < progress(&reports[1]));
        assert!(
            reports
                .iter()
                .all(|report| report["progressToken"] == "a token")
        );
    };
    thread::scope(|scope| {
        for revision in [REVISIONS[0], NEWEST] {
            scope.spawn(move || reports_twice(revision));
        }
    });
}

#[test]
fn computing_calls_delay_no_small_request() {
    let program = folder("[limits]\ntime = \"60m\"\n");
    let mut client = with_guests(&program, &["unchecked.wasm"], "2025-11-25");
    let looping = client.start_calls("raw_loop", &arguments(), 16);
    for _ in 0..5 {
        assert!(client.request("ping", json!({}))["result"].is_object());
        client.call("get_skill", json!({"skill_name": "a"}));
    }
    for id in looping {
        assert!(!client.has_answer(id));
        client.notify("notifications/cancelled", json!({"requestId": id}));
    }
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn each_request_of_flood_gets_its_answer() {
    const CALLS: u64 = 3000;
    let program = folder("calls = 4\nqueue = 1024\n");
    for n in 0..10 {
        program.write(&format!("skills/a/{n}.txt"), format!("file {n}"));
    }
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    // Answers are read only after everything is sent, so most of them have to wait.
    for n in 0..CALLS {
        let path = format!("{}.txt", n % 10);
        client.send(
            "tools/call",
            json!({
                "name": "read_file_in_skill",
                "arguments": {"skill_name": "a", "file_path": path},
            }),
        );
    }
    let mut ids = BTreeSet::new();
    for _ in 0..CALLS {
        let answer = client.message();
        let id = answer["id"].as_u64().unwrap();
        assert!(ids.insert(id));
        let text = &answer["result"]["content"][0]["text"];
        assert_eq!(*text, format!("file {}", (id - 1) % 10));
    }
    assert_eq!(client.end(), (vec![], Some(0)));
}

#[test]
fn reads_input_while_answer_is_unread() {
    let program = folder("");
    // Neither the answer nor the lines fit into a pipe.
    let text = "x".repeat(1 << 20);
    program.write("skills/a/large.txt", &text);
    let lines = format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "method": "notifications/unheard"})
    );
    let lines = lines.repeat((1 << 20) / lines.len());
    let mut server = Process::start(&mut server(program.folder.path()));
    let mut input = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut answer =
        || -> Value { serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap() };
    open_session(&mut input, &mut answer);
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    let call = json!({"name": "read_file_in_skill", "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call});
    writeln!(input, "{call}").unwrap();
    let (sent, all_sent) = channel();
    thread::spawn(move || {
        input.write_all(lines.as_bytes()).unwrap();
        sent.send(input).unwrap();
    });
    let mut input = all_sent.recv_timeout(patience()).unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    writeln!(input, "{ping}").unwrap();
    assert_eq!(answer()["result"]["content"][0]["text"], text);
    assert_eq!(answer()["id"], 3);
    drop(input);
    assert!(server.wait().success());
}

/// Sends a line `count` times to a server, and only then reads the answers. Returns the number of
/// lines that the server and the pipe accepted before that.
fn send_before_reading(folder: &Path, line: &Value, count: usize) -> usize {
    let mut server = Process::start(&mut server(folder));
    let mut input = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut answer =
        || -> Value { serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap() };
    open_session(&mut input, &mut answer);
    let mut line = line.clone();
    // Call once first, because a wait for the component would look like a server that stopped
    // reading.
    line["id"] = "first".into();
    writeln!(input, "{line}").unwrap();
    assert_eq!(answer()["id"], "first");
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let sending = thread::spawn(move || {
        for number in 0..count {
            line["id"] = format!("{number} {}", "i".repeat(1000)).into();
            writeln!(input, "{line}").unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    // Wait until the server has read no line for a second. On a busy machine this wait can end
    // early, and then the test checks less.
    let (mut accepted, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(20));
        let now = sent.load(Ordering::SeqCst);
        if now != accepted {
            (accepted, since) = (now, Instant::now());
        }
    }
    let answered: BTreeSet<String> = (0..count)
        .map(|_| answer()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(answered.len(), count);
    join(sending, "the end of the lines").unwrap();
    assert!(server.wait().success());
    accepted
}

#[test]
fn stops_reading_from_client_that_does_not_read() {
    // Many times more than slots, and more than the pipes hold.
    const LINES: usize = 1000;
    let program = folder("");
    program.write("skills/a/large.txt", "x".repeat(8000));
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    let call = json!({"name": "read_file_in_skill", "arguments": arguments});
    let request = json!({"jsonrpc": "2.0", "method": "tools/call", "params": call});
    let invalid = json!({"jsonrpc": "2.0", "method": 1});
    thread::scope(|scope| {
        for line in [request, invalid] {
            let folder = program.folder.path();
            scope.spawn(move || {
                let accepted = send_before_reading(folder, &line, LINES);
                assert!(accepted < LINES / 2, "{accepted} of {line}");
            });
        }
    });
}

#[test]
fn limits_bytes_of_unread_answers() {
    const CALLS: usize = 60;
    let program = folder("audit_file = \"audit.jsonl\"\n[stdio]\nmessage = \"16MiB\"\n");
    program.write("skills/a/large.txt", vec![b'x'; 8 << 20]);
    let mut server = Process::start(&mut server(program.folder.path()));
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = || serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    open_session(&mut input, first);
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    let call = json!({"name": "read_file_in_skill", "arguments": arguments});
    for id in 2..2 + CALLS {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
        writeln!(input, "{call}").unwrap();
    }
    drop(input);
    let audit = program.folder.path().join("audit.jsonl");
    let ended = || fs::read_to_string(&audit).map_or(0, |log| log.matches("large.txt").count());
    wait_until("not all calls end", || {
        assert!(server.try_wait().is_none());
        ended() >= CALLS
    });
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    let (large, refused): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line.len() > 8 << 20);
    // The limit is 256 MiB. The first written answers freed bytes for later calls.
    assert!((28..45).contains(&large.len()), "{}", large.len());
    assert_eq!(refused.len(), CALLS - large.len());
    for line in refused {
        assert!(line.contains("no memory is left for the answer"), "{line}");
    }
    assert!(server.wait().success());
}
