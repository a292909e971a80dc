//! The end of a server: at the end of its input, after a signal, or when its output closes.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{folder, guest_options, open_session, with_guests};
use crate::support::mcp::{Client, NEWEST, REVISIONS, server};
use crate::support::process::Process;
use crate::support::watchdog::wait_until;

fn signal(client: &Client, signal: Signal) {
    let pid = Pid::from_raw(client.pid().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn end_of_input_waits_for_calls() {
    // Longer than rmcp waits at the end of input.
    let program = folder("[limits]\ntime = \"6s\"\n");
    let answers_all = |revision| {
        let mut client = with_guests(&program, &["unchecked.wasm"], revision);
        let mut sent = vec![client.send(
            "tools/call",
            json!({"name": "raw_sleep", "arguments": {"skill_name": "a", "path": ""}}),
        )];
        for _ in 0..50 {
            sent.push(client.send(
                "tools/call",
                json!({"name": "read_skill", "arguments": {"skill_name": "a"}}),
            ));
        }
        let (messages, code) = client.end();
        assert_eq!(code, Some(0));
        let mut answered: Vec<u64> = messages
            .iter()
            .map(|message| message["id"].as_u64().unwrap())
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, sent);
        let slept = messages.iter().find(|message| message["id"] == sent[0]);
        assert_eq!(slept.unwrap()["result"]["isError"], true);
    };
    thread::scope(|scope| {
        for revision in [REVISIONS[0], NEWEST] {
            scope.spawn(move || answers_all(revision));
        }
    });
}

#[test]
fn end_of_input_waits_for_unwritten_messages() {
    let program = folder("");
    program.write("skills/a/large.txt", "x".repeat(1 << 18));
    let mut server = Process::start(&mut server(program.folder.path()));
    let mut input = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    let answer = |answers: &mut BufReader<_>| -> Value {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    // Each error has the request's id. All requests together are longer than a pipe, and so are
    // all errors, so the server must continue to read while its client reads nothing.
    let ids = (0..120).map(|number| format!("{number}{}", "i".repeat(1000)));
    let ids: Vec<String> = ids.collect();
    let wrong = ids
        .iter()
        .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": 1}));
    let right = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": REVISIONS[0],
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "read_file_in_skill", "arguments": arguments,
        }}),
    ];
    for message in right.into_iter().chain(wrong) {
        writeln!(input, "{message}").unwrap();
        if message["id"] == 0 || message["id"] == 1 {
            assert_eq!(answer(&mut answers)["id"], message["id"]);
        }
        if message["id"] == 2 {
            // Send the invalid requests only after the server starts to write this answer.
            answers.fill_buf().unwrap();
        }
    }
    drop(input);
    assert_eq!(answer(&mut answers)["id"], 2);
    // A server that did not wait would exit in this time. Nothing shows when a waiting server has
    // noticed the end of its input.
    thread::sleep(Duration::from_millis(200));
    for id in &ids {
        assert_eq!(answer(&mut answers)["id"], **id);
    }
    assert!(server.wait().success());
}

#[test]
fn empty_or_unfinished_input_ends_server() {
    let program = folder("");
    let client = Client::start_unopened(program.folder.path(), &[], NEWEST);
    assert_eq!(client.end(), (vec![], Some(0)));
    let client = Client::start(program.folder.path(), &[], REVISIONS[0]);
    assert_eq!(client.end(), (vec![], Some(0)));
    // A last line without a line feed is answered.
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    let request = client.request_line(&json!(1), "tools/list", json!({}));
    client.send_part(&request);
    let (messages, code) = client.end();
    assert_eq!((messages.len(), code), (1, Some(0)));
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    client.send_part(&request[..20]);
    let (messages, code) = client.end();
    assert_eq!(messages[0]["error"]["code"], -32700);
    assert_eq!((messages.len(), code), (1, Some(0)));
}

#[test]
fn signal_ends_server_and_guests() {
    let program = folder("[limits]\ntime = \"60m\"\n");
    let ends = |kind, revision| {
        let mut idle = Client::start(program.folder.path(), &[], revision);
        idle.request("tools/list", json!({}));
        signal(&idle, kind);
        assert_eq!(idle.wait(), Some(0));

        let mut busy = with_guests(&program, &["unchecked.wasm"], revision);
        busy.request("tools/list", json!({}));
        busy.start_calls("raw_loop", &json!({"skill_name": "a", "path": ""}), 4);
        // A subscription does not delay the end.
        busy.send(
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true}}),
        );
        signal(&busy, kind);
        assert_eq!(busy.wait(), Some(0));
    };
    thread::scope(|scope| {
        for (kind, revision) in [(Signal::TERM, NEWEST), (Signal::INT, REVISIONS[0])] {
            scope.spawn(move || ends(kind, revision));
        }
    });
}

#[test]
fn hang_up_signal_does_not_end_server() {
    let program = folder("");
    let folder = program.folder.path();
    let mut client = Client::start(folder, &["--skills", "skills"], NEWEST);
    let read = json!({"skill_name": "a"});
    for _ in 0..3 {
        assert_eq!(client.call("read_skill", read.clone())["isError"], false);
        signal(&client, Signal::HUP);
    }
    assert_eq!(client.call("read_skill", read)["isError"], false);
    let (_, code) = client.end();
    assert_eq!(code, Some(0));
}

#[test]
fn answers_waiting_requests_after_signal() {
    let program = folder("audit_file = \"audit.jsonl\"\n");
    program.write("skills/a/file.txt", "x".repeat(9000));
    let mut server = Process::start(&mut server(program.folder.path()));
    let mut input = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    let mut answer = || {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str::<Value>(&line).unwrap())
    };
    open_session(&mut input, || answer().unwrap());
    // More requests than are in flight at a time, and more answers than a pipe holds.
    let arguments = json!({"skill_name": "a", "file_path": "file.txt"});
    let call = json!({"name": "read_file_in_skill", "arguments": arguments});
    for id in 2..200 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call});
        writeln!(input, "{call}").unwrap();
    }
    let audit = program.folder.path().join("audit.jsonl");
    wait_until("too few calls end", || {
        let log = std::fs::read_to_string(&audit).unwrap_or_default();
        log.matches("file.txt").count() > 128
    });
    server.signal(Signal::TERM);
    let mut answered = 0;
    while let Some(answer) = answer() {
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answered += 1;
    }
    assert!(answered > 128, "{answered}");
    assert!(server.wait().success());
}

#[test]
fn client_that_exits_leaves_no_server() {
    let program = folder("[limits]\ntime = \"1s\"\n");
    let mut client = with_guests(&program, &["unchecked.wasm"], NEWEST);
    client.request("tools/list", json!({}));
    for _ in 0..4 {
        client.send(
            "tools/call",
            json!({"name": "raw_loop", "arguments": {"skill_name": "a", "path": ""}}),
        );
    }
    client.hang_up();
    assert_eq!(client.wait(), Some(0));
}

#[test]
fn closed_output_ends_server_during_call() {
    let program = folder("audit_file = \"audit.jsonl\"\n[limits]\ntime = \"60m\"\n");
    let pipe = || {
        let (read, write) = std::io::pipe().unwrap();
        (OwnedFd::from(read), Stdio::from(write))
    };
    let socket = || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (OwnedFd::from(ours), Stdio::from(OwnedFd::from(theirs)))
    };
    for (kind, (ours, theirs)) in [("pipe", pipe()), ("socket", socket())] {
        let mut command = server(program.folder.path());
        command
            .args(guest_options(&["unchecked.wasm"]))
            .stdout(theirs);
        let mut child = Process::start(command.stderr(Stdio::piped()));
        drop(command);
        // The input stays open, so only the closed output can end the server.
        let mut stdin = child.stdin.take().unwrap();
        for line in [
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": REVISIONS[0],
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ] {
            writeln!(stdin, "{line}").unwrap();
        }
        let mut answers = BufReader::new(File::from(ours));
        for _ in 0..2 {
            answers.read_line(&mut String::new()).unwrap();
        }
        let looping = json!({
            "name": "raw_loop",
            "arguments": {"skill_name": "a", "path": ""},
            "_meta": {"progressToken": "token"},
        });
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": looping});
        writeln!(stdin, "{call}").unwrap();
        let mut line = String::new();
        while !line.contains("notifications/progress") {
            line.clear();
            assert_ne!(answers.read_line(&mut line).unwrap(), 0, "{kind}");
        }
        assert_eq!(child.try_wait(), None, "{kind}");
        drop((answers, child.stderr.take()));
        child.wait();
        let audit = program.folder.path().join("audit.jsonl");
        let recorded = std::fs::read_to_string(&audit).unwrap();
        assert!(recorded.contains("\"cancelled\""), "{kind}: {recorded}");
        std::fs::remove_file(audit).unwrap();
    }
}

#[test]
fn host_that_cannot_load_ends_server_with_reason() {
    let program = folder("audit_file = \"/proc/none/audit.jsonl\"\n");
    let mut client = Client::start_unopened(program.folder.path(), &[], NEWEST);
    assert_eq!(client.wait(), Some(4));
    client.wait_until_logged("cannot use the audit log");
    let (messages, _) = client.end();
    assert_eq!(messages, [] as [Value; 0]);
}

#[test]
fn warns_that_clients_need_http() {
    let program = folder("");
    for (name, clients, warns) in [
        ("some.toml", "[clients.ci]\ntoken_file = \"none\"\n", true),
        ("none.toml", "[clients]\n", false),
    ] {
        program.write(name, clients);
        let run = program.run(&["--config", name, "serve"]);
        assert_eq!(run.code, 0, "{run:?}");
        let warned = run.stderr.contains("`[clients]` applies only to `--http`");
        assert_eq!(warned, warns, "{run:?}");
    }
}
