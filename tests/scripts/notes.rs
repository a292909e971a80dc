//! The note on a skill's scripts that answers get.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use skillhost::{AuditMode, Caller, Grant, Host, config};
use skillhost_identity::{Clients, IdentitySettings};
use skillhost_server::HttpOptions;

use super::answers::program;
use super::{log, records, script_grant, sha256, skill};
use crate::support::folders::Folders;
use crate::support::http::{Client as HttpClient, Request, TestServer};
use crate::support::mcp::{Client, REVISIONS};
use crate::support::watchdog::wait_until;
use crate::support::{UNREACHED, block_on, build, builder, guests, limits};

const VERDICTS: &str = "scripts/run.py|will run|Prints one.|\n\
                        scripts/lib/part.py|will not|A part.|import numpy\n\
                        private/key.py|will run|Not granted.|\n\
                        scripts/odd\u{202e}.py|cannot be told||\u{200b}exec\n";
const NOTE: &str = "Scripts, as check_skill_steps judges them:\n\
                    \"scripts/run.py\": will run (Prints one.)\n\
                    \"scripts/lib/part.py\": will not (import numpy)\n\
                    \"scripts/odd\\u202e.py\": cannot be told (\\u{200b}exec)";

fn folders_with_verdicts(verdicts: &str) -> Folders {
    let folders = skill();
    folders.write("tools/verdicts.txt", verdicts);
    folders
}

fn host(folders: &Folders, grant: Grant, help: bool) -> Host {
    let builder = builder().skills(&folders.root).tools(guests()).help(help);
    build(builder.grant("scripts.wasm", grant))
}

/// Returns the note that a call's answer gets.
fn note(host: &Host, tool: &str, skill: &str) -> Option<String> {
    let skill = host.noted_skill(tool, &json!({ "skill_name": skill }))?;
    block_on(host.script_note(&Caller::default(), &skill, None))
}

#[test]
fn tells_model_which_scripts_of_skill_can_run() {
    let folders = folders_with_verdicts(VERDICTS);
    let host = host(&folders, script_grant(), true);
    for (tool, skill, expected) in [
        ("read_skill", "tools", Some(NOTE)),
        ("list_files_in_skill", "tools", Some(NOTE)),
        // Models read JSON from this tool.
        ("get_skill", "tools", None),
        ("take_steps", "tools", None),
        ("read_skill", "none", None),
    ] {
        assert_eq!(
            note(&host, tool, skill).as_deref(),
            expected,
            "{tool} {skill}"
        );
    }
}

#[test]
fn no_note_on_scripts_that_lists_leave_out() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "A.\n");
    folders.write("a/verdicts.txt", "run.py|will run||\n");
    folders.write("a/node_modules/x/run.py", "");
    let grant = Grant::new().skills(["*"]).unwrap();
    let host = host(&folders, grant.scripts(["**/*.py"]).unwrap(), true);
    assert_eq!(note(&host, "read_skill", "a"), None);
    folders.write("a/run.py", "");
    assert!(note(&host, "read_skill", "a").is_some());
}

#[test]
fn no_note_without_grant_scripts_or_help() {
    let folders = folders_with_verdicts(VERDICTS);
    folders.write("other/SKILL.md", "Other.\n");
    let all = || Grant::new().skills(["*"]).unwrap();
    for (case, grant, help) in [
        ("no scripts granted", all(), true),
        (
            "no script of the skill",
            all().scripts(["other/*.py"]).unwrap(),
            true,
        ),
        (
            "another skill",
            script_grant().skills(["other"]).unwrap(),
            true,
        ),
        ("help is off", script_grant(), false),
    ] {
        let host = host(&folders, grant, help);
        assert_eq!(note(&host, "read_skill", "tools"), None, "{case}");
    }
}

#[test]
fn records_call_for_note_with_its_client() {
    let folders = folders_with_verdicts(VERDICTS);
    let builder = builder().skills(&folders.root).tools(guests());
    let builder = builder.audit(log(&folders), AuditMode::Required);
    let builder = builder.grant("scripts.wasm", script_grant());
    let token = "0123456789abcdef-ci";
    let client = format!("[clients.ci]\ntoken_sha256 = \"{}\"\n", sha256(token));
    let settings = config::parse(&client, "skillhost.toml", Path::new("/"));
    let settings: IdentitySettings = settings.unwrap();
    let mut options = HttpOptions::default();
    options.clients = Clients::read(&settings.clients, &skillhost::Trust::new()).unwrap();
    let server = TestServer::start(builder, options);
    let read = Request::call(7, "read_skill", json!({"skill_name": "tools"}));
    let read = read.with("Authorization", &format!("Bearer {token}"));
    let answer = HttpClient::once(server.address, &read);
    assert!(
        answer.body.contains("as check_skill_steps judges them"),
        "{answer:?}"
    );
    let records = records(&folders);
    let tools: Vec<&Value> = records.iter().map(|record| &record["tool"]).collect();
    assert_eq!(tools, ["read_skill", "check_skill_steps"]);
    for record in &records {
        assert_eq!(
            [&record["client"], &record["transport"], &record["id"]],
            ["ci", "http", "7"]
        );
    }
}

#[test]
fn note_is_bounded() {
    let line = |index: usize| format!("scripts/run.py|will run|{index} {}|\n", "x".repeat(500));
    let verdicts: String = (0..100).map(line).collect();
    let folders = folders_with_verdicts(&verdicts);
    let note = note(&host(&folders, script_grant(), true), "read_skill", "tools").unwrap();
    assert!(
        note.len() < 2200 && note.ends_with("\nMore: check_skill_steps"),
        "{note}"
    );
    assert!(note.lines().all(|line| line.len() < 200), "{note}");
}

#[test]
fn note_is_mcp_block_and_cli_help() {
    let program = program();
    program.write("skills/tools/verdicts.txt", VERDICTS);
    let mut client = Client::start(program.folder.path(), &[], REVISIONS[0]);
    let result = client.call("read_skill", json!({ "skill_name": "tools" }));
    let blocks = result["content"].as_array().unwrap();
    let texts: Vec<&Value> = blocks.iter().map(|block| &block["text"]).collect();
    assert_eq!(texts, ["# Tools\n", NOTE]);
    let ran = program.run(&["call", "read_skill", "skill_name=tools"]);
    let lines: Vec<String> = NOTE.lines().map(|line| format!("help: {line}")).collect();
    assert_eq!(ran.stdout, "# Tools\n");
    assert_eq!(ran.stderr.trim_end(), lines.join("\n"));
}

#[test]
fn answer_waits_only_briefly_for_a_note() {
    let folders = skill();
    let endless = r#"(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "f") (param i32 i32) (result i32) (loop (br 0)) unreachable))
  (core instance $i (instantiate $m))
  (func (export "check-skill-forever") (param "skill-name" string) (result u32)
    (canon lift (core func $i "f") (memory (core memory $i "memory"))
      (realloc (core func $i "realloc")))))"#;
    let tools = folders.outside.join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("endless.wasm"), wat::parse_str(endless).unwrap()).unwrap();
    let builder = builder().skills(&folders.root).tools(tools);
    let builder = builder.limits(limits(UNREACHED));
    let builder = builder.audit(log(&folders), AuditMode::Required);
    let builder = builder.grant("endless.wasm", script_grant());
    let server = TestServer::start(builder, HttpOptions::default());
    let start = Instant::now();
    let read = Request::call(1, "read_skill", json!({"skill_name": "tools"}));
    let answer = HttpClient::once(server.address, &read);
    // The host waits a second for the note, and then answers. A busy machine takes longer.
    let waited = start.elapsed().as_secs();
    assert!((1..10).contains(&waited), "{waited} s");
    let blocks = &answer.json()["result"]["content"];
    assert_eq!(blocks.as_array().unwrap().len(), 1, "{blocks}");
    assert_eq!(answer.text(), "# Tools\n");
    // The host stopped the call for the note; no client cancelled it.
    let record = &records(&folders)[1];
    assert_eq!(record["tool"], "check_skill_forever");
    assert_eq!([&record["outcome"], &record["reason"]], ["stopped", "time"]);
    // The guest is stopped, too.
    wait_until("the guest did not stop", || {
        server.host.occupancy().running == 0
    });
}
