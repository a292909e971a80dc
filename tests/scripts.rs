//! Scripts of a skill: the scripts that start, their audit records, and the files that a call
//! changes.

mod answers;
mod command_line;
mod notes;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost::{AuditMode, Grant, Host, Limits, Output};
use skillhost_index::MemoryIndex;

use crate::support::folders::Folders;
use crate::support::{block_on, build, builder, cancel_call_when, guests, limits};

/// Makes the skill `tools` with scripts and other files.
fn skill() -> Folders {
    let folders = Folders::new();
    for (path, text) in [
        (
            "SKILL.md",
            "---\nname: tools\ndescription: d\n---\n# Tools\n",
        ),
        ("scripts/run.py", "print(1)\n"),
        ("scripts/lib/part.py", "PART = 1\n"),
        ("scripts/lib/other.py", "OTHER = 1\n"),
        ("scripts/notes.txt", "notes\n"),
        ("scripts/shell.sh", "echo\n"),
        ("private/key.py", "KEY = 1\n"),
        ("top.py", "TOP = 1\n"),
    ] {
        folders.write(&format!("tools/{path}"), text);
    }
    folders
}

fn script_grant() -> Grant {
    let grant = Grant::new().skills(["*"]).unwrap();
    grant.scripts(["scripts/**/*.py"]).unwrap()
}

fn host(folders: &Folders, grant: Grant) -> Host {
    let builder = builder().skills(&folders.root).tools(guests());
    let builder = builder.audit(log(folders), AuditMode::Required);
    build(builder.grant("scripts.wasm", grant))
}

fn log(folders: &Folders) -> PathBuf {
    folders.outside.join("audit.jsonl")
}

/// Calls `take_steps` with these steps.
fn run_steps(host: &Host, steps: &[&str]) -> Output {
    let arguments = json!({"skill_name": "tools", "steps": steps.join("\n")});
    block_on(host.call("take_steps", arguments)).unwrap()
}

fn records(folders: &Folders) -> Vec<Value> {
    let text = fs::read_to_string(log(folders)).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn starts_scripts_that_grant_allows_and_no_others() {
    let folders = skill();
    let tools = folders.root.join("tools");
    symlink("run.py", tools.join("scripts/inside.py")).unwrap();
    symlink("../private/key.py", tools.join("scripts/private_link.py")).unwrap();
    symlink("../../../outside/canary.txt", tools.join("scripts/out.py")).unwrap();
    symlink("loop.py", tools.join("scripts/loop.py")).unwrap();
    fs::create_dir(tools.join("scripts/folder.py")).unwrap();
    fs::write(tools.join("scripts/linked.py"), "").unwrap();
    fs::hard_link(tools.join("scripts/linked.py"), tools.join("again.py")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tools.join("scripts/fifo.py"),
        fifo,
        mode,
        0,
    )
    .unwrap();
    let large = fs::File::create(tools.join("scripts/large.py")).unwrap();
    large.set_len(50 << 20).unwrap();
    let over_limit = fs::File::create(tools.join("scripts/over_limit.py")).unwrap();
    over_limit.set_len((4 << 20) + 1).unwrap();
    let long = format!("scripts/{}.py", "x".repeat(300));
    let longer = format!("scripts/{}.py", "x/".repeat(3000));
    let host = host(&folders, script_grant());
    for (path, answer) in [
        ("scripts/run.py", "started: print(1)"),
        ("scripts/lib/part.py", "started: PART = 1"),
        ("./scripts//lib/../run.py", "started: print(1)"),
        ("scripts/inside.py", "started: print(1)"),
        ("scripts/private_link.py", "started: KEY = 1"),
        ("scripts/notes.txt", "refused: not-granted"),
        ("scripts/shell.sh", "refused: not-granted"),
        ("private/key.py", "refused: not-granted"),
        ("top.py", "refused: not-granted"),
        ("scripts/../private/key.py", "refused: not-granted"),
        ("scripts", "refused: not-granted"),
        ("", "refused: not-granted"),
        ("scripts/none.py", "refused: not-found"),
        ("scripts/run.py/x.py", "refused: not-found"),
        ("scripts/folder.py", "refused: not-a-file"),
        ("scripts/fifo.py", "refused: not-a-file"),
        ("scripts/out.py", "refused: outside"),
        ("../tools/scripts/run.py", "refused: outside"),
        ("scripts/../../tools/scripts/run.py", "refused: outside"),
        ("/skills/tools/scripts/run.py", "refused: outside"),
        ("scripts/linked.py", "refused: hard-linked"),
        ("scripts/loop.py", "refused: symlink-loop"),
        ("scripts/large.py", "refused: too-large"),
        ("scripts/over_limit.py", "refused: too-large"),
        (&long, "refused: name-too-long"),
        (&longer, "refused: name-too-long"),
        ("scripts/a\0.py", "refused: unreadable"),
    ] {
        let output = run_steps(&host, &[&format!("start {path}")]);
        assert_eq!(output.text(), answer, "{path}");
    }
}

#[test]
fn starts_nothing_without_grant_or_without_skill() {
    let folders = skill();
    let all = || Grant::new().skills(["*"]).unwrap();
    folders.write("../home/scripts/run.py", "print(1)\n");
    for grant in [all(), all().scripts([] as [&str; 0]).unwrap()] {
        let host = host(&folders, grant);
        let output = run_steps(&host, &["start scripts/run.py", "finish 3"]);
        assert_eq!(output.text(), "refused: not-granted\nfinished");
    }
    let home = folders.root.with_file_name("home");
    let builder = builder().skills(&folders.root).tools(guests()).home(home);
    let host = build(builder.grant("scripts.wasm", script_grant().home(true)));
    let arguments = json!({"steps": "start scripts/run.py"});
    let output = block_on(host.call("take_steps", arguments)).unwrap();
    assert_eq!(output.text(), "refused: not-granted");
    assert!(
        records(&folders)
            .iter()
            .all(|record| record.get("script").is_none() && record.get("exit_code").is_none())
    );
}

#[test]
fn one_call_starts_one_script() {
    let folders = skill();
    let host = host(&folders, script_grant());
    let output = run_steps(
        &host,
        &[
            "start scripts/none.py",
            "start scripts/run.py",
            "start scripts/lib/part.py",
        ],
    );
    assert_eq!(
        output.text(),
        "refused: not-found\nstarted: print(1)\nrefused: already-started"
    );
    assert_eq!(records(&folders)[0]["script"], "scripts/run.py");
}

#[test]
fn audit_log_has_script_with_modules_and_exit_code() {
    let folders = skill();
    let host = host(&folders, script_grant());
    symlink("part.py", folders.root.join("tools/scripts/lib/link.py")).unwrap();
    symlink("notes.txt", folders.root.join("tools/scripts/text.py")).unwrap();
    let part = format!("{}  scripts/lib/part.py\n", sha256("PART = 1\n"));
    let other = format!("{}  scripts/lib/other.py\n", sha256("OTHER = 1\n"));
    let notes = format!("{}  scripts/notes.txt\n", sha256("notes\n"));
    let cases: [(&[&str], Option<String>, Option<i32>); 5] = [
        (&["finish 0"], None, Some(0)),
        (
            &["read scripts/run.py", "read scripts/notes.txt", "finish -7"],
            None,
            Some(-7),
        ),
        (&["read scripts/lib/part.py"], Some(sha256(&part)), None),
        (
            &[
                "read scripts/lib/part.py",
                "read scripts/lib/other.py",
                "read scripts/lib/link.py",
            ],
            Some(sha256(format!("{other}{part}"))),
            None,
        ),
        (
            &["read scripts/text.py", "finish 1", "finish 2"],
            Some(sha256(notes)),
            Some(2),
        ),
    ];
    for (steps, modules, exit_code) in cases {
        // Files read before the script starts are not its modules.
        let steps = [
            &["read scripts/lib/other.py", "start scripts/run.py"],
            steps,
        ]
        .concat();
        run_steps(&host, &steps);
        let record = records(&folders).pop().unwrap();
        assert_eq!(record["outcome"], "output");
        assert_eq!(record["script"], "scripts/run.py");
        assert_eq!(record["script_sha256"], sha256("print(1)\n"));
        assert_eq!(record["modules_sha256"], json!(modules), "{steps:?}");
        assert_eq!(record["exit_code"], json!(exit_code), "{steps:?}");
    }
    run_steps(&host, &["read scripts/run.py"]);
    let record = records(&folders).pop().unwrap();
    for field in [
        "script",
        "script_sha256",
        "modules_sha256",
        "written_code_sha256",
        "exit_code",
    ] {
        assert_eq!(record.get(field), None, "{field}");
    }
}

#[test]
fn audit_log_has_script_of_stopped_call() {
    let folders = skill();
    let host = host(
        &folders,
        script_grant().limits(limits(Duration::from_secs(1))),
    );
    // The record lacks the exit code 42 that the guest reports, because the call is stopped later.
    let steps = "start scripts/run.py\nfinish 42\nfill a 8000000\nloop";
    let steps = json!({"skill_name": "tools", "steps": steps});
    block_on(host.call("take_steps", steps.clone())).unwrap_err();
    let has_filled = || host.occupancy().memory > 8_000_000;
    block_on(cancel_call_when(&host, "take_steps", steps, has_filled));
    for (record, outcome) in records(&folders).iter().zip(["stopped", "cancelled"]) {
        assert_eq!(record["outcome"], outcome);
        assert_eq!(record["script"], "scripts/run.py");
        assert_eq!(record["exit_code"], Value::Null);
    }
    assert_eq!(records(&folders).len(), 2);
}

#[test]
fn guest_sees_no_skills_after_script_starts() {
    let folders = skill();
    folders.write(
        "other/SKILL.md",
        "---\nname: other\ndescription: Tells of tea.\n---\nTea.\n",
    );
    let index = Arc::new(MemoryIndex::new());
    let builder = builder().skills(&folders.root).tools(guests());
    let builder = builder.index(Arc::clone(&index) as _);
    let host = build(builder.grant("scripts.wasm", script_grant()));
    host.update_index();
    assert!(index.wait_until_ready(Duration::from_secs(60)));
    let steps = [
        // Prints how many skills a list, a page and a search show.
        "skills tea",
        "start scripts/none.py",
        "skills tea",
        "start scripts/run.py",
        "skills tea",
    ];
    assert_eq!(
        run_steps(&host, &steps).text(),
        "skills: 2 2 1\nrefused: not-found\nskills: 2 2 1\nstarted: print(1)\nskills: 0 0 0"
    );
}

#[test]
fn loads_modules_only_after_script_started() {
    let folders = skill();
    let tools = folders.root.join("tools");
    symlink("part.py", tools.join("scripts/lib/link.py")).unwrap();
    symlink("../../../outside/canary.txt", tools.join("scripts/out.py")).unwrap();
    let host = host(&folders, script_grant());
    let output = run_steps(&host, &["load scripts/lib/part.py"]);
    assert_eq!(output.text(), "refused: not-granted");
    for (path, answer) in [
        ("scripts/lib/part.py", "loaded: PART = 1"),
        ("scripts/lib/link.py", "loaded: PART = 1"),
        ("scripts/lib/../../top.py", "loaded: TOP = 1"),
        ("scripts/none.py", "refused: not-found"),
        ("scripts/lib", "refused: not-a-file"),
        ("scripts/out.py", "refused: outside"),
        ("/skills/tools/top.py", "refused: outside"),
    ] {
        let output = run_steps(&host, &["start scripts/run.py", &format!("load {path}")]);
        let expected = format!("started: print(1)\n{answer}");
        assert_eq!(output.text(), expected, "{path}");
    }
    run_steps(&host, &["start scripts/run.py", "load scripts/lib/link.py"]);
    let record = records(&folders).pop().unwrap();
    let listing = format!("{}  scripts/lib/part.py\n", sha256("PART = 1\n"));
    assert_eq!(record["modules_sha256"], sha256(listing));
}

#[test]
fn script_cannot_open_module_of_50_mb() {
    let folders = skill();
    let path = folders.root.join("tools/scripts/large.py");
    fs::File::create(&path).unwrap().set_len(50 << 20).unwrap();
    let mut limits = Limits::default();
    limits.memory = 256 << 20;
    let host = host(&folders, script_grant().limits(limits));
    let output = run_steps(&host, &["start scripts/run.py", "read scripts/large.py"]);
    assert_eq!(output.text(), "started: print(1)\nfailed: FileTooLarge");
    let output = run_steps(&host, &["read scripts/large.py"]);
    assert!(output.text().starts_with("read: "));
}

#[test]
fn script_and_module_have_4_mib_at_most() {
    let folders = skill();
    let path = folders.root.join("tools/scripts/large.py");
    let mut limits = Limits::default();
    limits.memory = 256 << 20;
    let host = host(&folders, script_grant().limits(limits));
    for (size, fits) in [(4 << 20, true), ((4 << 20) + 1, false)] {
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        for steps in [
            &["start scripts/large.py"][..],
            &["start scripts/run.py", "read scripts/large.py"],
            &["start scripts/run.py", "load scripts/large.py"],
        ] {
            let output = run_steps(&host, steps);
            let text = output.text();
            let refused = ["failed: FileTooLarge", "refused: too-large"];
            let is_refused = refused.iter().any(|end| text.ends_with(end));
            assert_ne!(is_refused, fits, "{steps:?}: {text:.80}");
        }
    }
}
