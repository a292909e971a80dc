//! The files that a call changes in its view, as models, programs and MCP clients get them.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use skillhost::exchange::{self, Format};
use skillhost::message;
use skillhost_server::HttpOptions;

use super::{host, records, run_steps, script_grant, sha256, skill};
use crate::support::folders::Folders;
use crate::support::http::{Client as HttpClient, Request, TestServer};
use crate::support::mcp::{Client, REVISIONS};
use crate::support::process::output;
use crate::support::program::Program;
use crate::support::{block_on, builder, guests};
use skillhost::{FolderAccess, Grant, Limits};

/// The steps of these tests, which make, change and remove files.
pub(super) const STEPS: [&str; 7] = [
    "mkdir out",
    "write out/report.md # Report",
    "binary out/data.bin",
    "write top.py TOP = 2",
    "write scripts/same same",
    "write /tmp/scratch x",
    "remove scripts/notes.txt",
];

/// The list of changed files that a model reads.
pub(super) const LIST: &str = "Changed files (only in this answer; the skill is as it was):\n\
    \"out/data.bin\" (3 bytes, application/octet-stream)\n\
    \"out/report.md\" (8 bytes, text/markdown)\n\
    \"top.py\" (7 bytes, text/x-python)\n\
    \"scripts/notes.txt\" (removed)";

pub(super) fn writing_grant() -> Grant {
    script_grant().view(FolderAccess::CopyOnWrite)
}

/// Makes the skill, with a file that a step overwrites with equal bytes.
fn skill_with_rewritten_file() -> Folders {
    let folders = skill();
    folders.write("tools/scripts/same", "same");
    folders
}

/// Returns the text of an answer after these steps, if none fails.
pub(super) fn done(steps: &[&str]) -> String {
    ["done"].repeat(steps.len()).join("\n")
}

pub(super) fn expected_record() -> Value {
    json!({
        "ended": true,
        "files": [
            {"path": "out/data.bin", "size": 3, "media_type": "application/octet-stream",
             "sha256": sha256([0xff, 0, 0xfe])},
            {"path": "out/report.md", "size": 8, "media_type": "text/markdown",
             "sha256": sha256("# Report"), "text": "# Report"},
            {"path": "top.py", "size": 7, "media_type": "text/x-python",
             "sha256": sha256("TOP = 2"), "text": "TOP = 2"},
        ],
        "removed": ["scripts/notes.txt"],
    })
}

#[test]
fn answer_lists_created_changed_and_removed_files() {
    let folders = skill_with_rewritten_file();
    let host = host(&folders, writing_grant());
    let output = run_steps(&host, &STEPS);
    assert_eq!(output.text(), done(&STEPS));
    assert_eq!(output.record(), expected_record());
    let files = output.files().unwrap();
    let bytes: Vec<&[u8]> = files
        .files
        .iter()
        .map(|file| &**file.bytes.as_ref().unwrap())
        .collect();
    assert_eq!(bytes, [&[0xff, 0, 0xfe][..], b"# Report", b"TOP = 2"]);
    assert_eq!(
        output.into_model_text(),
        format!("{}\n\n{LIST}", done(&STEPS))
    );

    // A model that reads records gets the same record.
    let arguments = json!({"skill_name": "tools", "steps": STEPS.join("\n")});
    let output = block_on(host.call("take_steps_for_record", arguments)).unwrap();
    let read: Value = serde_json::from_str(&output.into_model_text()).unwrap();
    assert_eq!(read, expected_record());

    // The disk is as it was, and so is the next call's view.
    let tools = folders.root.join("tools");
    assert_eq!(
        fs::read_to_string(tools.join("top.py")).unwrap(),
        "TOP = 1\n"
    );
    assert!(!tools.join("out").exists() && tools.join("scripts/notes.txt").exists());
    let output = run_steps(&host, &["read scripts/notes.txt"]);
    assert_eq!(output.record(), json!({"ended": true, "files": []}));
    assert_eq!(output.into_model_text(), "read: notes");
}

#[test]
fn call_without_a_view_writes_nothing() {
    let folders = skill_with_rewritten_file();
    let host = host(&folders, script_grant());
    let output = run_steps(&host, &["write out.txt x", "remove top.py"]);
    assert_eq!(output.files(), None);
    assert_eq!(output.record(), json!({"ended": true}));
    assert_eq!(
        output.into_model_text(),
        "failed: ReadOnlyFilesystem\nfailed: ReadOnlyFilesystem"
    );
}

#[test]
fn limits_bound_the_files_of_an_answer() {
    let folders = skill();
    let mut limits = Limits::default();
    (limits.output_files, limits.output_file_bytes) = (3, 100);
    let host = host(&folders, writing_grant().limits(limits));
    let output = run_steps(
        &host,
        &[
            "fill a 60",
            "fill b 60",
            "fill c 40",
            "fill d 1",
            "remove top.py",
        ],
    );
    let files = output.files().unwrap();
    let carried = files
        .files
        .iter()
        .map(|file| (&*file.path, file.bytes.is_some()));
    assert_eq!(
        carried.collect::<Vec<_>>(),
        [("a", true), ("b", false), ("c", true)]
    );
    assert_eq!(
        (files.left_out, files.total, files.total_bytes),
        (1, 4, 161)
    );
    let text = output.into_model_text();
    assert!(
        text.contains("\"b\" (60 bytes, text/plain, too large to be returned)"),
        "{text}"
    );
    assert!(text.ends_with("\"top.py\" (removed)\nand 1 more"), "{text}");
    let record = records(&folders).pop().unwrap();
    assert_eq!(
        (&record["changed_files"], &record["changed_bytes"]),
        (&json!(4), &json!(161))
    );
}

#[test]
fn starts_only_scripts_from_disk() {
    let folders = skill();
    let host = host(&folders, writing_grant());
    for (steps, started, modules) in [
        (
            &["write scripts/run.py hacked"][..],
            "started: print(1)",
            None,
        ),
        (&["remove scripts/run.py"], "started: print(1)", None),
        (&["rename top.py scripts/run.py"], "started: print(1)", None),
        (
            &["write scripts/new.py print(2)"],
            "refused: not-found",
            None,
        ),
        // Files that the call wrote or moved are not modules of the skill.
        (
            &[
                "rename private/key.py scripts/mine.py",
                "write scripts/lib/other.py x",
            ],
            "started: print(1)",
            Some("scripts/lib/part.py"),
        ),
    ] {
        let script = match started {
            "refused: not-found" => "start scripts/new.py",
            _ => "start scripts/run.py",
        };
        let reads = [
            "read scripts/mine.py",
            "read scripts/lib/other.py",
            "read scripts/lib/part.py",
        ];
        let steps = [steps, &[script], &reads[..]].concat();
        let output = run_steps(&host, &steps);
        let lines: Vec<&str> = output.text().lines().collect();
        assert!(lines.contains(&started), "{steps:?}: {lines:?}");
        let record = records(&folders).pop().unwrap();
        if let Some(path) = modules {
            let listing = format!("{}  {path}\n", sha256("PART = 1\n"));
            assert_eq!(record["modules_sha256"], sha256(listing), "{record}");
        }
        let is_started = started != "refused: not-found";
        assert_eq!(record.get("script").is_some(), is_started, "{record}");
        assert!(record["changed_files"].is_u64(), "{record}");
    }
}

#[test]
fn record_has_written_code_apart_from_modules() {
    let folders = skill();
    let host = host(&folders, writing_grant());
    let listing = |texts: &[&str]| {
        let mut digests: Vec<String> = texts.iter().map(sha256).collect();
        digests.sort();
        sha256(format!("{}\n", digests.join("\n")))
    };
    let part = sha256(format!("{}  scripts/lib/part.py\n", sha256("PART = 1\n")));
    for (steps, last, modules, written) in [
        // The first call shadows the standard module `json` with a new file, and the second
        // overwrites a module of the skill.
        (
            &["write scripts/json.py CHANGED", "start scripts/run.py"][..],
            &["load scripts/json.py", "read scripts/json.py"][..],
            None,
            Some(listing(&["CHANGED"])),
        ),
        (
            &["write scripts/lib/other.py CHANGED", "start scripts/run.py"],
            &["load scripts/lib/other.py", "read scripts/lib/part.py"],
            Some(&part),
            None,
        ),
        // Files that a script makes, moves or renames are not modules of its skill.
        (
            &["start scripts/run.py", "write /tmp/made.py MADE"],
            &["read /tmp/made.py", "load scripts/lib/part.py"],
            Some(&part),
            Some(listing(&["MADE"])),
        ),
        (
            &["start scripts/run.py", "rename private scripts/mine"],
            &["load scripts/mine/key.py", "read scripts/mine/key.py"],
            None,
            Some(listing(&["KEY = 1\n"])),
        ),
        (
            &[
                "write scripts/a.py B",
                "write scripts/b.py A",
                "start scripts/run.py",
            ],
            &[
                "read scripts/a.py",
                "read scripts/b.py",
                "read scripts/a.py",
            ],
            None,
            Some(listing(&["A", "B"])),
        ),
        // Text is not code, and unread files do not run.
        (
            &[
                "write scripts/in.txt A",
                "write scripts/c.py A",
                "start scripts/run.py",
            ],
            &["read scripts/in.txt"],
            None,
            None,
        ),
    ] {
        let all = [steps, last].concat();
        let output = run_steps(&host, &all);
        for (step, line) in all.iter().zip(output.text().lines()) {
            let expected = match *step {
                "load scripts/lib/part.py" => "loaded: PART = 1",
                "load scripts/lib/other.py" => "refused: not-granted",
                step if step.starts_with("load") => "refused: not-found",
                _ => line,
            };
            assert_eq!(line, expected, "{step}");
            assert!(!line.starts_with("failed"), "{step}: {line}");
        }
        let record = records(&folders).pop().unwrap();
        assert_eq!(record["modules_sha256"], json!(modules), "{all:?}");
        assert_eq!(record["written_code_sha256"], json!(written), "{all:?}");
    }
}

#[test]
fn lists_changed_files_in_every_model_format() {
    let folders = skill_with_rewritten_file();
    let host = host(&folders, writing_grant());
    let arguments = json!({"skill_name": "tools", "steps": STEPS.join("\n")});
    let expected = format!("{}\n\n{LIST}", done(&STEPS));
    for (format, call) in [
        (
            Format::OpenAi,
            json!({"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
                "function": {"name": "take_steps", "arguments": arguments.to_string()}}]}),
        ),
        (
            Format::Responses,
            json!([{"type": "function_call", "call_id": "1", "name": "take_steps",
                "arguments": arguments.to_string()}]),
        ),
        (
            Format::Anthropic,
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1",
                "name": "take_steps", "input": arguments}]}),
        ),
        (
            Format::Gemini,
            json!({"role": "model", "parts": [{"functionCall":
                {"name": "take_steps", "args": arguments}}]}),
        ),
    ] {
        let answer = block_on(exchange::respond(&host, format, &call.to_string())).unwrap();
        let answer = Value::from(answer).to_string();
        let text = Value::from(expected.as_str()).to_string();
        assert!(answer.contains(&text), "{}: {answer}", format.name());
    }
    let outcome = block_on(host.call("take_steps", arguments));
    assert_eq!(message::model_text(outcome), expected);
}

/// Returns a program whose component may write, with the skill of these tests.
pub(super) fn program() -> Program {
    let folders = skill_with_rewritten_file();
    let program = Program::new();
    let folder = program.folder.path();
    let mut copy = Command::new("cp");
    let copied = output(copy.arg("-r").args([&folders.root, &folder.join("skills")]));
    assert!(copied.status.success(), "{copied:?}");
    program.write(
        "tools/scripts.wasm",
        fs::read(guests().join("scripts.wasm")).unwrap(),
    );
    program.write(
        "skillhost.toml",
        "skills = [\"skills\"]\ntools = [\"tools\"]\n[grants.\"scripts.wasm\"]\n\
         skills = [\"tools\"]\nview = \"copy-on-write\"\nscripts = [\"scripts/**/*.py\"]\n",
    );
    program
}

/// Checks the blocks of an answer over MCP.
fn check_blocks(result: &Value, has_large_file: bool) {
    let blocks = result["content"].as_array().unwrap();
    let text = blocks[0]["text"].as_str().unwrap();
    let resources: Vec<&Value> = blocks[1..]
        .iter()
        .map(|block| {
            assert_eq!(block["type"], "resource");
            &block["resource"]
        })
        .collect();
    let data = json!({"uri": "skillhost-output:///out/data.bin",
        "mimeType": "application/octet-stream", "blob": "/wD+"});
    let report = json!({"uri": "skillhost-output:///out/report.md",
        "mimeType": "text/markdown", "text": "# Report"});
    let top = json!({"uri": "skillhost-output:///top.py",
        "mimeType": "text/x-python", "text": "TOP = 2"});
    assert_eq!(resources, [&data, &report, &top]);
    if has_large_file {
        let listed = "\"large\" (1048577 bytes, text/plain)";
        assert!(text.contains(listed), "{text}");
    } else {
        assert_eq!(text, format!("{}\n\n{LIST}", done(&STEPS)));
    }
    assert_eq!(result["isError"], false);
    assert_eq!(result.get("structuredContent"), None);
}

#[test]
fn mcp_client_gets_changed_files_as_embedded_resources() {
    let program = program();
    let arguments = json!({"skill_name": "tools", "steps": STEPS.join("\n")});
    let too_large = format!("{}\nfill large 1048577", STEPS.join("\n"));
    for revision in REVISIONS {
        let mut client = Client::start(program.folder.path(), &[], revision);
        check_blocks(&client.call("take_steps", arguments.clone()), false);
        let with_large = json!({"skill_name": "tools", "steps": too_large});
        check_blocks(&client.call("take_steps", with_large), true);
        let odd = json!({"skill_name": "tools", "steps": "write \u{202e}#?%\"é x"});
        let result = client.call("take_steps", odd);
        assert_eq!(
            result["content"][1]["resource"]["uri"],
            "skillhost-output:///%E2%80%AE%23%3F%25%22%C3%A9"
        );
        // The file cannot be read as a resource later.
        let uri = json!({"uri": "skillhost-output:///top.py"});
        let refused = client.request("resources/read", uri);
        assert!(refused["error"].is_object(), "{refused}");
    }
}

#[test]
fn http_client_gets_changed_files_as_embedded_resources() {
    let folders = skill_with_rewritten_file();
    let builder = builder().skills(&folders.root).tools(guests());
    let builder = builder.grant("scripts.wasm", writing_grant());
    let server = TestServer::start(builder, HttpOptions::default());
    let arguments = json!({"skill_name": "tools", "steps": STEPS.join("\n")});
    for request in [Request::call, Request::call_2026] {
        let request = request(1, "take_steps", arguments.clone());
        let answer = HttpClient::once(server.address, &request);
        check_blocks(&answer.json()["result"], false);
    }
    let embedded = |steps: &str, names: &[&str]| {
        let arguments = json!({"skill_name": "tools", "steps": steps});
        let request = Request::call(1, "take_steps", arguments);
        let answer = HttpClient::once(server.address, &request);
        for name in names {
            assert!(answer.text().contains(&format!("\"{name}\" (")), "{name}");
        }
        let content = answer.json()["result"]["content"].clone();
        let blocks = content.as_array().unwrap()[1..].iter();
        let uris: Vec<Value> = blocks
            .map(|block| block["resource"]["uri"].clone())
            .collect();
        uris
    };
    // Each file fits alone, but not all of them together.
    let steps = "fill a 600000\nfill b 600000\nfill c 400000";
    let uris = embedded(steps, &["a", "b", "c"]);
    assert_eq!(uris, ["skillhost-output:///a", "skillhost-output:///c"]);
    // The file fits, but not together with its URI.
    let steps = format!("fill a {}\nfill b 1", (1 << 20) - 20);
    assert_eq!(embedded(&steps, &["a", "b"]), ["skillhost-output:///b"]);
    let many: Vec<String> = (100..201)
        .map(|number| format!("fill {number} 0"))
        .collect();
    let uris = embedded(&many.join("\n"), &["100", "200"]);
    assert_eq!(
        (uris.len(), &uris[99]),
        (100, &json!("skillhost-output:///199"))
    );
}

#[test]
fn record_of_stopped_call_has_no_files() {
    let folders = skill();
    let mut limits = Limits::default();
    limits.time = std::time::Duration::from_millis(200);
    let host = host(&folders, writing_grant().limits(limits));
    let arguments = json!({"skill_name": "tools", "steps": "write a b\nloop"});
    block_on(host.call("take_steps", arguments)).unwrap_err();
    let record = records(&folders).pop().unwrap();
    assert_eq!(record["outcome"], "stopped");
    assert_eq!(record.get("changed_files"), None);
}

#[test]
fn grants_show_scripts_and_bad_pattern_is_error() {
    let program = program();
    let run = program.run(&["grants", "--all"]);
    let tool_lines: Vec<&str> = run
        .stdout
        .split("take_steps (from")
        .nth(1)
        .unwrap()
        .lines()
        .collect();
    assert!(
        tool_lines.contains(&"  scripts: scripts/**/*.py"),
        "{tool_lines:?}"
    );
    assert!(run.stdout.contains("  scripts: none"), "{}", run.stdout);
    let run = program.run(&["grants", "--output", "json"]);
    let grants: Value = serde_json::from_str(&run.stdout).unwrap();
    let grant = grants
        .as_array()
        .unwrap()
        .iter()
        .find(|grant| grant["tool"] == "take_steps");
    assert_eq!(grant.unwrap()["scripts"], "scripts/**/*.py");
    for (pattern, reason) in [
        (
            "../x.py",
            "`../x.py` is not a pattern of scripts: write a path inside the skill",
        ),
        ("/x.py", "is not a pattern of scripts"),
        (
            "scripts/**.py",
            "`**` stands for folders and must be alone between two `/`",
        ),
    ] {
        program.write(
            "skillhost.toml",
            format!(
                "skills = [\"skills\"]\n[grants.\"scripts.wasm\"]\nscripts = [\"{pattern}\"]\n"
            ),
        );
        let run = program.run(&["grants"]);
        assert_eq!(run.code, 4);
        let location = "`skillhost.toml`, line 2";
        assert!(
            run.stderr.contains(reason) && run.stderr.contains(location),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn digest_of_an_answer_covers_changed_files() {
    let program = program();
    assert_eq!(program.run(&["audit", "new-key", "key"]).code, 0);
    let text = fs::read_to_string(program.folder.path().join("skillhost.toml")).unwrap();
    let text = format!("audit_file = \"log\"\n{text}[audit]\nkey_file = \"key\"\n");
    program.write("skillhost.toml", text);
    let digest = |text: &str| {
        let run = program.run_with(&["audit", "digest", "--key-file", "key"], text);
        run.stdout.trim_end().to_owned()
    };
    // The path and the file together have the same bytes in both cases.
    for (steps, path, bytes) in [("write a bc", "a", "bc"), ("write ab c", "ab", "c")] {
        let list = format!("{}\n{} {}\n", digest("done"), sha256(path), sha256(bytes));
        let steps = format!("steps={steps}");
        let call = ["call", "take_steps", "skill_name=tools", &steps];
        let run = program.run(&[&["--config", "skillhost.toml"], &call[..]].concat());
        assert_eq!(run.code, 0, "{run:?}");
        let log = fs::read_to_string(program.folder.path().join("log")).unwrap();
        let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let mut call_records = records.filter(|record: &Value| record["tool"] == "take_steps");
        let found = call_records.next_back().unwrap();
        assert_eq!(found["answer_hmac"], digest(&list), "{steps}");
    }
}
