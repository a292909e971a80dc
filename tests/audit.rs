//! The audit log has one record for each call. No record contains what its call read. The host
//! withholds an answer if it cannot record the call.

mod adopted;
mod best_effort;
mod chain;
mod checkpoints;
mod external_checkpoints;
mod program;
mod show;
mod signed_log;
mod stderr;
mod unproven;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::DupFlags;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use skillhost::{
    AuditMode, CallError, Caller, Catalog, Host, Peer, SearchOffer, SearchResult, SkillIndex, Stop,
    TraceId, Transport,
};

use skillhost_server::HttpOptions;

use crate::support::folders::Folders;
use crate::support::http::{Client, Request, TestServer};
use crate::support::program::Program;
use crate::support::session::Session;
use crate::support::{block_on, build, builder, builder_with_guests, call, cancel_call_when};

/// The value of a `traceparent` header.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn host(folders: &Folders, mode: AuditMode) -> Host {
    folders.write("a/SKILL.md", "secret text\n");
    let builder = builder_with_guests().skills(&folders.root);
    build(builder.audit(log(folders), mode))
}

fn log(folders: &Folders) -> std::path::PathBuf {
    folders.outside.join("audit.jsonl")
}

fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_ascii() && !text.contains("secret"), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn records_every_call_once() {
    let folders = Folders::new();
    let host = host(&folders, AuditMode::Required);
    let calls = [
        (
            "read_file_in_skill",
            json!({"skill_name": "a", "file_path": "SKILL.md"}),
            "output",
            None,
        ),
        (
            "read_file_in_skill",
            json!({"skill_name": "a", "file_path": "none"}),
            "failed",
            Some("not-found"),
        ),
        (
            "read_file_in_skill",
            json!({"skill_name": "a", "file_path": "../x"}),
            "failed",
            Some("refused"),
        ),
        (
            "read_file_in_skill",
            json!({"skill_name": "a"}),
            "refused",
            Some("arguments"),
        ),
        ("none", json!({}), "refused", Some("unknown-tool")),
        (
            "raw_panic",
            json!({"skill_name": "a", "path": "\u{1b}[2J\u{202e}"}),
            "stopped",
            Some("trap"),
        ),
    ];
    let caller = Caller::default().id("id-1");
    for (tool, arguments, ..) in &calls {
        let _ = block_on(host.call_from(&caller, tool, arguments.clone()));
    }
    let arguments = json!({"skill_name": "a", "path": "p"});
    let runs = || host.occupancy().memory > 0;
    block_on(cancel_call_when(&host, "raw_sleep", arguments, runs));
    let records = records(&log(&folders));
    assert_eq!(records.len(), calls.len() + 1);
    for (record, (tool, _, outcome, reason)) in records.iter().zip(&calls) {
        assert_eq!(record["tool"], *tool);
        assert_eq!(record["id"], "id-1");
        assert_eq!(record["outcome"], *outcome, "{record}");
        assert_eq!(record["reason"].as_str(), *reason, "{record}");
        let time = record["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    }
    let read = &records[0];
    assert_eq!(
        (&read["skill"], &read["path"]),
        (&json!("a"), &json!("SKILL.md"))
    );
    assert_eq!(read["component"].as_str().map(str::len), Some(64));
    assert!(read["bytes"].as_u64().unwrap() >= 12 && read["memory"].as_u64().unwrap() > 0);
    assert_eq!(records[5]["path"], "\u{1b}[2J\u{202e}");
    let given_up = &records[calls.len()];
    assert_eq!(
        (&given_up["outcome"], &given_up["skill"]),
        (&json!("cancelled"), &json!("a"))
    );
    assert!(given_up["memory"].as_u64().unwrap() > 0, "{given_up}");
}

/// The tool in the record of a refused call, and the reason.
type Refusal<'a> = (&'a str, &'a str);

/// Returns malformed parameters of `tools/call`, with the tool and reason of their records.
fn malformed_calls() -> Vec<(Value, Refusal<'static>)> {
    vec![
        (
            json!({"name": "read_skill", "arguments": [1]}),
            ("read_skill", "arguments"),
        ),
        (
            json!({"name": "read_skill", "arguments": "a"}),
            ("read_skill", "arguments"),
        ),
        (
            json!({"name": "none", "arguments": 7}),
            ("none", "unknown-tool"),
        ),
        (json!({"name": 7, "arguments": {}}), ("", "unknown-tool")),
        (json!({"arguments": {}}), ("", "unknown-tool")),
    ]
}

#[track_caller]
fn assert_refused(record: &Value, transport: &str, (tool, reason): Refusal<'_>) {
    let found = ["transport", "tool", "outcome", "reason"].map(|field| &record[field]);
    let expected = [transport, tool, "refused", reason];
    assert_eq!(found, expected.map(|text| json!(text)).each_ref());
    assert_eq!(record.get("arguments_hmac"), None);
}

#[test]
fn records_malformed_calls_over_stdio() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let builder = builder().skills(&folders.root);
    let mut session = Session::open(builder.audit(log(&folders), AuditMode::Required));
    for (params, _) in malformed_calls() {
        let (code, _) = session.error("tools/call", params);
        assert_eq!(code, -32602);
    }
    let long = json!({"name": "x".repeat(5_000), "arguments": 1});
    session.error("tools/call", long);
    let records = records(&log(&folders));
    let (last, earlier) = records.split_last().unwrap();
    assert_eq!(earlier.len(), malformed_calls().len());
    for (record, (_, refusal)) in earlier.iter().zip(malformed_calls()) {
        assert_refused(record, "stdio", refusal);
    }
    assert_refused(last, "stdio", (&"x".repeat(1_024), "unknown-tool"));
    assert_eq!(last["truncated"], json!(["tool"]));
    // A call that cannot be recorded gets an error that says so.
    redirect_file(&log(&folders), Path::new("/dev/full"));
    let (_, message) = session.error("tools/call", json!({"name": "read_skill", "arguments": 1}));
    assert!(message.contains("could not be recorded"), "{message}");
}

#[test]
fn records_malformed_calls_over_http() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let builder = builder().skills(&folders.root);
    let builder = builder.audit(log(&folders), AuditMode::Required);
    let server = TestServer::start(builder, HttpOptions::default());
    for (params, _) in malformed_calls() {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = Request::post(call.to_string()).with("MCP-Protocol-Version", "2025-11-25");
        let answer = Client::once(server.address, &request);
        assert!(answer.body.contains("-32602"), "{answer:?}");
    }
    let records = records(&log(&folders));
    assert_eq!(records.len(), malformed_calls().len());
    for (record, (_, refusal)) in records.iter().zip(malformed_calls()) {
        assert_refused(record, "http", refusal);
    }
}

/// An index that spends this much processor time on each search.
struct CostlyIndex(Duration);

impl SkillIndex for CostlyIndex {
    fn update(&self, _: &Arc<Catalog>) {}

    fn search(&self, _: &str, _: usize, _: &dyn Fn(&str) -> bool) -> SearchResult {
        let cpu_time = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        let start = cpu_time();
        while cpu_time() - start < self.0 {}
        SearchResult::default()
    }
}

#[test]
fn records_the_processor_time_of_searches() {
    const TIME: Duration = Duration::from_millis(50);
    let folders = Folders::new();
    folders.write("a/SKILL.md", "secret text\n");
    let builder = builder().skills(&folders.root);
    let builder = builder.audit(log(&folders), AuditMode::Required);
    let builder = builder.search_offer(SearchOffer::Always);
    let host = build(builder.index(Arc::new(CostlyIndex(TIME))));
    call(&host, "find_skills", json!({"query": "a"})).unwrap();
    let cpu = records(&log(&folders))[0]["cpu_us"].as_u64().unwrap();
    assert!(Duration::from_micros(cpu) >= TIME, "{cpu}");
}

#[test]
fn records_the_caller_and_the_cost() {
    let folders = Folders::new();
    let host = host(&folders, AuditMode::Required);
    let caller = Caller::new(Transport::Http)
        .client("ci\u{1b}[2J")
        .peer(Peer::Address("192.0.2.1:4000".parse().unwrap()))
        .id("x".repeat(2000))
        .trace(TraceId::from_traceparent(TRACE).unwrap());
    let arguments = json!({"skill_name": "a"});
    block_on(host.call_from(&caller, "read_skill", arguments.clone())).unwrap();
    block_on(host.call("read_skill", arguments)).unwrap();
    let [named, unnamed] = &records(&log(&folders))[..] else {
        panic!("there are two records");
    };
    assert_eq!(named["client"], "ci\u{1b}[2J");
    assert_eq!(named["peer"], "192.0.2.1:4000");
    assert_eq!(named["transport"], "http");
    assert_eq!(named["trace"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(named["id"], "x".repeat(1024));
    assert_eq!(named["truncated"], json!(["id"]));
    let cpu = named["cpu_us"].as_u64().unwrap();
    assert!(
        cpu > 0 && cpu <= named["duration_us"].as_u64().unwrap() + 1_000,
        "{named}"
    );
    assert_eq!(unnamed["transport"], "embedded");
    for field in ["client", "peer", "trace", "truncated"] {
        assert_eq!(unnamed.get(field), None);
    }
    // The host's own ids of two calls begin with the same process number.
    let ids = [named, unnamed].map(|record| {
        let (process, number) = record["call"].as_str().unwrap().split_once('-').unwrap();
        (process.to_owned(), number.parse::<u64>().unwrap())
    });
    assert_eq!((&ids[0].0, ids[0].1 + 1), (&ids[1].0, ids[1].1));
}

#[test]
fn records_the_skill_of_a_path() {
    let folders = Folders::new();
    let host = host(&folders, AuditMode::Required);
    let path = folders.root.join("a/SKILL.md");
    call(&host, "read_skill_file", json!({ "path": path })).unwrap();
    assert_eq!(records(&log(&folders))[0]["skill"], "a");
}

#[test]
fn records_the_peer_and_the_trace_over_http() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let builder = builder().skills(&folders.root);
    let builder = builder.audit(log(&folders), AuditMode::Required);
    let server = TestServer::start(builder, HttpOptions::default());
    let mut client = Client::connect(server.address);
    let read = Request::call(7, "read_skill", json!({"skill_name": "a"}));
    let traced = read.clone().with("traceparent", TRACE);
    // Reading a resource is a call too.
    let resource = json!({"jsonrpc": "2.0", "id": 8, "method": "resources/read", "params": {
        "uri": "skill://a/SKILL.md", "_meta": {"traceparent": TRACE},
    }});
    let resource = Request::post(resource.to_string()).with("MCP-Protocol-Version", "2025-11-25");
    for request in [&read, &traced, &resource] {
        assert_eq!(client.ask(request).status, 200);
    }
    let records = records(&log(&folders));
    let expected = [("7", false), ("7", true), ("8", true)];
    assert_eq!(records.len(), expected.len());
    for (record, (id, has_trace)) in records.iter().zip(expected) {
        assert_eq!(
            (&record["transport"], &record["id"]),
            (&json!("http"), &json!(id))
        );
        assert_eq!(record["peer"], client.address().to_string());
        let trace = has_trace.then_some("0af7651916cd43dd8448eb211c80319c");
        assert_eq!(record["trace"].as_str(), trace, "{record}");
    }
}

#[test]
fn each_host_has_its_own_digest_key() {
    let folders = Folders::new();
    let read = |file: &str| json!({"skill_name": "a", "file_path": file});
    for _ in 0..2 {
        let host = host(&folders, AuditMode::Required);
        for file in ["SKILL.md", "SKILL.md", "none"] {
            let _ = call(&host, "read_file_in_skill", read(file));
        }
    }
    call(
        &host(&folders, AuditMode::Required),
        "list_skills",
        json!({"none": 1}),
    )
    .unwrap_err();
    let records = records(&log(&folders));
    let digests = |at: usize| {
        ["arguments_hmac", "answer_hmac"].map(|key| records[at][key].as_str().unwrap_or_default())
    };
    assert!(digests(0).iter().all(|digest| digest.len() == 64));
    // One host gives the same call the same digests.
    assert_eq!(digests(0), digests(1));
    for other in [2, 3] {
        assert!(
            digests(0)
                .iter()
                .zip(digests(other))
                .all(|(one, other)| *one != other)
        );
    }
    // A refused call has no answer.
    assert!(digests(6)[0].len() == 64 && digests(6)[1].is_empty());
}

#[test]
fn appends_to_regular_file_with_mode_0600() {
    let folders = Folders::new();
    let file = log(&folders);
    for expected in 1..=2 {
        let host = host(&folders, AuditMode::Required);
        call(&host, "list_skills", json!({})).unwrap();
        assert_eq!(records(&file).len(), expected);
    }
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let link = folders.outside.join("link");
    symlink(&file, &link).unwrap();
    let fifo = folders.outside.join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    for path in [
        &file,
        &link,
        &fifo,
        &folders.outside,
        &folders.outside.join("none/audit"),
    ] {
        let built = block_on(builder().audit(path, AuditMode::Required).build());
        let error = built
            .err()
            .map(|error| format!("{error:#}"))
            .unwrap_or_default();
        assert!(
            error.contains("cannot use the audit log"),
            "{path:?}: {error}"
        );
    }
}

#[test]
fn withholds_answers_without_a_record() {
    // Writes to this device always fail.
    let full = Path::new("/dev/full");
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    for (mode, is_answered) in [(AuditMode::Required, false), (AuditMode::BestEffort, true)] {
        let host = build(builder().skills(&folders.root).audit(log(&folders), mode));
        redirect_file(&log(&folders), full);
        let outcome = call(&host, "read_skill", json!({"skill_name": "a"}));
        match outcome {
            Ok(_) => assert!(is_answered),
            Err(CallError::Stopped {
                stop: Stop::NotRecorded,
                ..
            }) => assert!(!is_answered),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn counts_unrecorded_calls_in_the_metrics() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let builder = builder().skills(&folders.root);
    let builder = builder.audit(log(&folders), AuditMode::Required);
    let server = TestServer::start(builder, HttpOptions::default());
    redirect_file(&log(&folders), Path::new("/dev/full"));
    let read = Request::call(1, "read_skill", json!({"skill_name": "a"}));
    let answer = Client::once(server.address, &read);
    assert!(
        answer.text().contains("could not be recorded"),
        "{answer:?}"
    );
    let metrics = Client::once(server.address, &Request::get("/metrics")).body;
    let line =
        "skillhost_calls_total{tool=\"read_skill\",outcome=\"stopped\",reason=\"not-recorded\"} 1";
    assert!(metrics.lines().any(|shown| shown == line), "{metrics}");
}

/// Redirects the open descriptor of `file` to `other`, and returns the descriptor's number.
fn redirect_file(file: &Path, other: &Path) -> i32 {
    let file = fs::canonicalize(file).unwrap();
    let number = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| fs::read_link(path).is_ok_and(|target| target == file))
        .and_then(|path| path.file_name()?.to_str()?.parse::<i32>().ok())
        .unwrap();
    redirect_descriptor(number, other);
    number
}

/// Redirects the descriptor `number` to `file`.
fn redirect_descriptor(number: i32, file: &Path) {
    use std::os::fd::{FromRawFd as _, IntoRawFd as _};

    let mut options = fs::OpenOptions::new();
    let file = options.read(true).append(true).open(file).unwrap();
    #[allow(
        unsafe_code,
        reason = "replaces a descriptor that is known only by its number"
    )]
    // SAFETY: the number is an open descriptor, and it is not closed here.
    let mut target = unsafe { std::os::fd::OwnedFd::from_raw_fd(number) };
    rustix::io::dup3(&file, &mut target, DupFlags::CLOEXEC).unwrap();
    let _ = target.into_raw_fd();
}

#[test]
fn records_tool_call_id_from_command_line() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let arguments = "{\"skill_name\":\"a\"}";
    let run = program.run(&[
        "--audit",
        "log",
        "call",
        "read_skill",
        arguments,
        "--tool-call-id",
        "c1",
    ]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "# A\n"));
    let records = records(&program.folder.path().join("log"));
    assert_eq!(
        (&records[0]["id"], &records[0]["outcome"]),
        (&json!("c1"), &json!("output"))
    );
    assert_eq!(records[0]["transport"], "cli");
}

#[test]
fn records_calls_of_check_with_transport_cli() {
    let judge = r#"(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "f") (param i32 i32) (result i32) (i32.const 7)))
  (core instance $i (instantiate $m))
  (func (export "check-skill-scripts") (param "skill-name" string) (result u32)
    (canon lift (core func $i "f") (memory (core memory $i "memory"))
      (realloc (core func $i "realloc")))))"#;
    let program = Program::new();
    program.write("skills/a/SKILL.md", "---\nname: a\ndescription: b\n---\n");
    program.write("tools/judge.wasm", wat::parse_str(judge).unwrap());
    let grant = "[grants.\"judge.wasm\"]\nskills = [\"a\"]\n";
    program.write("skillhost.toml", format!("tools = [\"tools\"]\n{grant}"));
    let run = program.run(&["--audit", "log", "check"]);
    assert_eq!(run.code, 0, "{run:?}");
    let records = records(&program.folder.path().join("log"));
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["tool"], "check_skill_scripts");
    assert_eq!(records[0]["outcome"], "output");
    assert_eq!(records[0]["transport"], "cli");
}

#[test]
fn cuts_long_names_in_records() {
    let folders = Folders::new();
    let long = "\u{10ffff}".repeat(200_000);
    let caller = Caller::default().client(&*long);
    for _ in 0..2 {
        let host = host(&folders, AuditMode::Required);
        let names = json!({"skill_name": long, "file_path": long});
        for (tool, arguments) in [("read_file_in_skill", names), (&long, json!({}))] {
            block_on(host.call_from(&caller, tool, arguments)).unwrap_err();
        }
    }
    let records = records(&log(&folders));
    assert_eq!(records.len(), 4);
    let cut = json!("\u{10ffff}".repeat(1024));
    for (at, field) in [(0, "skill"), (0, "path"), (0, "client"), (1, "tool")] {
        let length = records[at][field].as_str().map(|text| text.chars().count());
        assert!(records[at][field] == cut, "{field}: {length:?}");
    }
    assert_eq!(records[0]["truncated"], json!(["client", "skill", "path"]));
    assert_eq!(records[1]["truncated"], json!(["client", "tool"]));
}

#[test]
fn marks_truncated_values() {
    let folders = Folders::new();
    let host = host(&folders, AuditMode::Required);
    let longest = "é".repeat(1_024);
    for path in [&longest, &format!("{longest}é"), &longest] {
        let arguments = json!({"skill_name": "a", "file_path": path});
        call(&host, "read_file_in_skill", arguments).unwrap_err();
    }
    let records = records(&log(&folders));
    for (record, truncated) in records.iter().zip([None, Some(json!(["path"])), None]) {
        assert!(record["path"] == json!(longest));
        assert_eq!(record.get("truncated"), truncated.as_ref());
    }
}

#[test]
fn verbs_without_calls_write_no_log() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "---\nname: a\ndescription: A.\n---\n");
    program.write("tools/.keep", "");
    let made = program.run(&["audit", "new-key", "key"]);
    assert_eq!(made.code, 0);
    let text = "skills = [\"skills\"]\ntools = [\"tools\"]\naudit_file = \"log\"\n\
                [audit]\nkey_file = \"key\"\ncheckpoint_command = [\"touch\", \"started\"]\n";
    program.write("c.toml", text);
    for verb in ["grants", "tools", "check", "skills", "prompt"] {
        let run = program.run(&["--config", "c.toml", verb]);
        assert_eq!(run.code, 0, "{verb}: {run:?}");
        for file in ["log", "started"] {
            let exists = program.folder.path().join(file).exists();
            assert!(!exists, "{verb} creates `{file}`");
        }
    }
}
