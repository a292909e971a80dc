//! The audit log on the command line: keys, checkpoint sinks, `verify` and `show`, a full disk,
//! and a killed process.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::signed_log::SignedLog;
use crate::support::mcp::Client;
use crate::support::process::Process;
use crate::support::program::{Program, finish};
use crate::support::watchdog::wait_until;

/// Makes a folder with a key, a configuration and one skill.
fn signed(settings: &str) -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let made = program.run(&["audit", "new-key", "key"]);
    assert_eq!((made.code, made.stderr.as_str()), (0, ""));
    program.write("public", &made.stdout);
    let text = format!("audit_file = \"log\"\n[audit]\nkey_file = \"key\"\n{settings}");
    program.write("c.toml", text);
    program
}

fn read_skill(program: &Program) -> i32 {
    let arguments = ["--config", "c.toml", "call", "read_skill", "skill_name=a"];
    program.run(&arguments).code
}

#[test]
fn reads_more_files_than_descriptor_limit() {
    let program = signed("");
    for _ in 0..15 {
        assert_eq!(read_skill(&program), 0);
    }
    // A file for each record, from the last to the first.
    let log = fs::read_to_string(program.folder.path().join("log")).unwrap();
    let lines = log.lines().count();
    assert!(lines > 30, "{log}");
    for (number, line) in log.lines().enumerate() {
        program.write(&format!("log.{number}"), format!("{line}\n"));
    }
    let files: Vec<String> = (0..lines)
        .rev()
        .map(|number| format!("log.{number}"))
        .collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let verify = &["audit", "verify", "--key", "public"][..];
    for (verb, expected) in [(verify, 2), (&["audit", "show"], 15)] {
        let run = program.run_after("ulimit -n 30", &[verb, &files].concat());
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stdout.lines().count() >= expected, "{run:?}");
    }
}

#[test]
fn verifies_a_log() {
    let program = signed("");
    for _ in 0..2 {
        assert_eq!(read_skill(&program), 0);
    }
    let verify = ["audit", "verify", "log", "--key", "public"];
    let run = program.run(&verify);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        run.stdout,
        "5 records, 0 to 4, with 3 checkpoints\nproven up to record 4\n"
    );
    let run = program.run(&[&verify[..], &["--output", "json"]].concat());
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&report["proven"], &report["unproven"]),
        (&json!(4), &json!(0))
    );
    // The key is in the format of openssl.
    assert!(
        program
            .run(&["audit", "public-key", "key"])
            .stdout
            .contains("PUBLIC KEY")
    );
    let text = fs::read_to_string(program.folder.path().join("log")).unwrap();
    program.write(
        "changed",
        text.replacen("\"skill\":\"a\"", "\"skill\":\"b\"", 1),
    );
    let run = program.run(&["audit", "verify", "changed", "--key", "public"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.starts_with("changed:3: "), "{}", run.stdout);
    assert!(
        run.stdout.contains("NOT as it was written"),
        "{}",
        run.stdout
    );
    // An external checkpoint shows that the end is missing.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    program.write("external", lines[2]);
    program.write("later", lines[4]);
    program.write("cut", lines[..3].concat());
    let run = program.run(&["audit", "verify", "cut", "--key", "public"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(report["missing_before"], 0);
    let with_checkpoints = [
        "audit",
        "verify",
        "cut",
        "--key",
        "public",
        "--checkpoints",
        "external",
        "--checkpoints",
        "later",
    ];
    let run = program.run(&with_checkpoints);
    assert_eq!(run.code, 1, "{run:?}");
    for said in [
        "the log is cut after record 2",
        "1 external checkpoint is in the log",
    ] {
        assert!(run.stdout.contains(said), "{}", run.stdout);
    }
    // Without a key, `verify` checks the chain but proves nothing.
    let run = program.run(&["audit", "verify", "log"]);
    assert_eq!(
        (run.code, &*run.stdout),
        (
            0,
            "5 records, 0 to 4, with 3 checkpoints\n\
             the chain is intact: each record has the digest of the one before it\n\
             nothing is proven: there is no `--key` to check the checkpoints with; whoever can \
             write the log can rewrite all of it, or cut off its end\n"
        )
    );
    let run = program.run(&["audit", "verify", "log", "--output", "json"]);
    let chain: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&chain["proven"], &chain["unchecked_checkpoints"]),
        (&Value::Null, &json!(3))
    );
    let run = program.run(&["audit", "verify", "changed"]);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.starts_with("changed:3: ") && run.stdout.lines().count() == 3,
        "{}",
        run.stdout
    );
    program.write("wrong_file", "not a record\n");
    let run = program.run(&["audit", "verify", "wrong_file"]);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.contains("no record that belongs to a chain"),
        "{run:?}"
    );
    let run = program.run(&["audit", "verify", "log", "--checkpoints", "external"]);
    assert_eq!((run.code, &*run.stdout), (2, ""));
    // A log without a checkpoint proves nothing.
    program.write("first", lines[1]);
    let run = program.run(&["audit", "verify", "first", "--key", "public"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("nothing is proven"), "{}", run.stdout);
    for (wrong, words) in [
        (
            ["audit", "verify", "log", "--key", "key"],
            "`skillhost audit public-key FILE`",
        ),
        (
            ["audit", "verify", "none", "--key", "public"],
            "cannot read the log `none`",
        ),
    ] {
        let run = program.run(&wrong);
        assert!(run.code == 4 && run.stderr.contains(words), "{run:?}");
    }
}

#[test]
fn refuses_a_fifo_without_waiting() {
    let program = signed("");
    assert_eq!(read_skill(&program), 0);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        program.folder.path().join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for arguments in [
        &["verify", "log", "fifo", "--key", "public"][..],
        &["show", "fifo"],
    ] {
        let run = program.run(&[&["audit"], arguments].concat());
        assert_eq!(run.code, 4, "{arguments:?}: {run:?}");
        let is_reported =
            run.stderr.contains("`fifo`") && run.stderr.contains("not a regular file");
        assert!(is_reported, "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn prints_the_digest_of_arguments() {
    let program = signed("");
    assert_eq!(read_skill(&program), 0);
    let text = fs::read_to_string(program.folder.path().join("log")).unwrap();
    let record: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    for (input, field) in [
        ("{\"skill_name\":\"a\"}", "arguments_hmac"),
        ("# A\n", "answer_hmac"),
    ] {
        let run = program.run_with(&["audit", "digest", "--key-file", "key"], input);
        assert_eq!(record[field], run.stdout.trim_end(), "{record}");
    }
}

#[test]
fn refuses_invalid_audit_settings() {
    let program = signed("");
    let call = || program.run(&["--config", "c.toml", "call", "read_skill", "skill_name=a"]);
    let key = program.folder.path().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let run = call();
    assert_eq!(run.code, 4);
    assert!(
        run.stderr.contains("`c.toml`, line 3") && run.stderr.contains("0600"),
        "{run:?}"
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    for (settings, words) in [
        (
            "checkpoint_socket = \"s\"",
            "`checkpoint_socket` needs `key_file`",
        ),
        (
            "checkpoint_command = [\"cat\"]",
            "`checkpoint_command` needs `key_file`",
        ),
        (
            "key_file = \"key\"\ncheckpoint_command = []",
            "a program and its arguments",
        ),
        (
            "key_file = \"key\"\ncheckpoint_command = [\"./none\"]",
            "cannot start `./none` of `checkpoint_command`",
        ),
        (
            "key_file = \"key\"\ncheckpoint_command = [\"none\"]",
            "not found on the PATH",
        ),
        (
            "key_file = \"key\"\ncheckpoint_socket = \"s\"",
            "cannot connect",
        ),
        ("key_file = \"none\"", "cannot use the key file"),
        ("key_file = \"c.toml\"", "new-key"),
        ("mode = \"never\"", "unknown variant `never`"),
        ("key_fil = \"key\"", "did you mean `key_file`?"),
        (
            "checkpoint_records = 0",
            "`checkpoint_records` is at least 1",
        ),
    ] {
        program.write(
            "c.toml",
            format!("audit_file = \"log\"\n[audit]\n{settings}\n"),
        );
        let config = program.folder.path().join("c.toml");
        fs::set_permissions(config, fs::Permissions::from_mode(0o600)).unwrap();
        let run = call();
        assert_eq!(run.code, 4, "{settings}: {run:?}");
        assert!(run.stderr.contains(words), "{settings}: {}", run.stderr);
    }
    // Stderr has no chain to sign.
    for (log, option, words) in [
        ("audit_file = \"-\"", &[][..], "standard error"),
        ("audit_file = \"log\"", &["--audit", "-"], "standard error"),
    ] {
        program.write("c.toml", format!("{log}\n[audit]\nkey_file = \"key\"\n"));
        let arguments = ["--config", "c.toml", "call", "read_skill", "skill_name=a"];
        let run = program.run(&[option, &arguments[..]].concat());
        assert_eq!(run.code, 4, "{run:?}");
        let location = "`c.toml`, line 3";
        assert!(
            run.stderr.contains(location) && run.stderr.contains(words),
            "{}",
            run.stderr
        );
    }
    // Settings of a log are an error if no log is configured.
    for settings in [
        "audit = \"required\"",
        "[audit]\nkey_file = \"key\"",
        "[audit]\nmode = \"best_effort\"",
        "[audit]\ncheckpoint_time = \"5s\"",
    ] {
        program.write("c.toml", format!("\n{settings}\n"));
        let run = call();
        assert_eq!(run.code, 4, "{settings}: {run:?}");
        let location = "`c.toml`, line 2";
        assert!(
            run.stderr.contains(location) && run.stderr.contains("no audit log is configured"),
            "{settings}: {}",
            run.stderr
        );
    }
    // The table `[audit]` can also set the mode.
    program.write(
        "c.toml",
        "audit_file = \"log\"\n[audit]\nmode = \"best_effort\"\n",
    );
    assert_eq!(call().code, 0);
}

#[test]
fn sends_checkpoints_to_both_sinks() {
    let program = signed(
        "checkpoint_command = [\"sh\", \"-c\", \"echo out; env > env; cat > external\"]\n\
         checkpoint_socket = \"socket\"\n",
    );
    let socket = UnixListener::bind(program.folder.path().join("socket")).unwrap();
    let reader = thread::spawn(move || {
        let (stream, _) = socket.accept().unwrap();
        BufReader::new(stream)
            .lines()
            .map(|line| line.unwrap())
            .collect::<Vec<_>>()
    });
    let mut command =
        program.command(&["--config", "c.toml", "call", "read_skill", "skill_name=a"]);
    command
        .env("PATH", "/usr/bin:/bin")
        .env("SKILLHOST_HTTP_TOKEN", "0123456789abcdef");
    let run = finish(command, "");
    assert_eq!((run.code, run.stdout.as_str()), (0, "# A\n"), "{run:?}");
    let text = fs::read_to_string(program.folder.path().join("log")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let checkpoints = [lines[0], lines[2]];
    assert_eq!(reader.join().unwrap(), checkpoints);
    let external = program.folder.path().join("external");
    // The sink can outlive the program.
    wait_until("checkpoints are missing", || {
        fs::read_to_string(&external).unwrap_or_default() == checkpoints.join("\n") + "\n"
    });
    let environment = fs::read_to_string(program.folder.path().join("env")).unwrap();
    assert!(
        !environment.contains("SKILLHOST_HTTP_TOKEN"),
        "{environment}"
    );
    let verify = [
        "audit",
        "verify",
        "log",
        "--key",
        "public",
        "--checkpoints",
        "external",
    ];
    let run = program.run(&verify);
    assert!(
        run.code == 0 && run.stdout.contains("2 external checkpoints are in the log"),
        "{run:?}"
    );
}

#[test]
fn server_waits_for_late_reader_of_checkpoints() {
    // The checkpoints do not fit into a pipe. Nothing shows that a server has read the end of its
    // input, so the reader waits a little before it begins.
    let program = signed(
        "checkpoint_records = 1\ncheckpoint_command = [\"/bin/sh\", \"-c\", \
         \"until [ -e end ]; do sleep 0.01; done; sleep 0.5; exec cat > external\"]\n",
    );
    let arguments = ["--config", "c.toml"];
    let mut client = Client::start(program.folder.path(), &arguments, "2025-11-25");
    for _ in 0..250 {
        client.call("read_skill", json!({"skill_name": "a"}));
    }
    program.write("end", "");
    assert_eq!(client.end().1, Some(0));
    let text = fs::read_to_string(program.folder.path().join("log")).unwrap();
    let lines = text.split_inclusive('\n');
    let checkpoints: String = lines
        .filter(|line| line.contains("\"signature\""))
        .collect();
    assert!(checkpoints.len() > 64 << 10, "{}", checkpoints.len());
    let external = program.folder.path().join("external");
    wait_until("checkpoints are missing", || {
        fs::read_to_string(&external).is_ok_and(|external| external == checkpoints)
    });
}

#[test]
fn starts_no_checkpoint_program_from_current_folder() {
    let at = |program: &Program, path: &str| program.folder.path().join(path);
    for (name, has_program) in [("./send", true), ("bin/send", true), ("send", false)] {
        let program = signed("");
        for (folder, send) in [("etc", "configured"), ("cwd", "current")] {
            for path in ["send", "bin/send"] {
                let path = format!("{folder}/{path}");
                program.write(&path, format!("#!/bin/sh\ncat > ../{send}\n"));
                fs::set_permissions(at(&program, &path), fs::Permissions::from_mode(0o755))
                    .unwrap();
            }
        }
        program.write(
            "etc/c.toml",
            format!(
                "skills = [\"../skills\"]\naudit_file = \"../log\"\n\
                 [audit]\nkey_file = \"../key\"\ncheckpoint_command = [\"{name}\"]\n"
            ),
        );
        let run = || {
            let arguments = [
                "--config",
                "../etc/c.toml",
                "call",
                "read_skill",
                "skill_name=a",
            ];
            let mut command = program.command(&arguments);
            command
                .env("PATH", format!(".::{}", env::var("PATH").unwrap()))
                .current_dir(at(&program, "cwd"));
            finish(command, "")
        };
        assert_eq!(run().code == 0, has_program, "{name}");
        if has_program {
            wait_until("there is no checkpoint", || {
                fs::read_to_string(at(&program, "configured"))
                    .is_ok_and(|text| text.ends_with('\n'))
            });
            // Others must not be able to change the program's file.
            let send = at(&program, "etc").join(name);
            fs::set_permissions(send, fs::Permissions::from_mode(0o757)).unwrap();
            let run = run();
            assert_eq!(run.code, 4, "{name}: {run:?}");
            assert!(run.stderr.contains("every user can change"), "{run:?}");
        }
        assert!(!at(&program, "current").exists(), "{name}");
    }
}

#[test]
fn shows_matching_records() {
    let program = signed("");
    assert_eq!(read_skill(&program), 0);
    let hostile = "path=\u{1b}[2J\u{202e}x y";
    let call = [
        "--config",
        "c.toml",
        "call",
        "read_skill_file",
        "skill_name=a",
        hostile,
    ];
    assert_ne!(program.run(&call).code, 0);
    let show = |more: &[&str]| {
        let run = program.run(&[&["audit", "show", "log"], more].concat());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(
            run.stdout
                .bytes()
                .all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
        );
        run.stdout
    };
    let all = show(&[]);
    let (header, calls) = all.split_once('\n').unwrap();
    assert_eq!(header, "TIME CLIENT TOOL SKILL PATH OUTCOME DURATION");
    let lines: Vec<&str> = calls.lines().collect();
    assert_eq!(lines.len(), 2, "{all}");
    assert!(lines[0].contains("Z - read_skill a - output "), "{all}");
    assert!(
        lines[1].contains("read_skill_file a \"\\u{1b}[2J\\u{202e}x y\" failed"),
        "{all}"
    );
    for (more, count) in [
        (&["--tool", "read_skill"][..], 1),
        (&["--skill", "a"], 2),
        (&["--skill", "b"], 0),
        (&["--client", "ci"], 0),
        (&["--outcome", "output"], 1),
        (&["--outcome", "checkpoint"], 3),
        (&["--since", "1h"], 2),
        (&["--until", "1h"], 0),
        (
            &[
                "--since",
                "2020-01-01T00:00:00Z",
                "--until",
                "2020-01-02 00:00:00",
            ],
            0,
        ),
    ] {
        let lines = show(more).lines().count();
        assert_eq!(lines, count + usize::from(count > 0), "{more:?}");
    }
    // The records of several files are shown in order.
    let text = fs::read_to_string(program.folder.path().join("log")).unwrap();
    let (first, last) = text.split_at(text.match_indices('\n').nth(1).unwrap().0 + 1);
    program.write("first", first);
    program.write("last", last);
    let run = program.run(&["audit", "show", "last", "first"]);
    assert_eq!((&*run.stdout, &*run.stderr), (&*all, ""));
    let json = show(&["--tool", "read_skill", "--output", "json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&json).unwrap()["tool"],
        "read_skill"
    );
    let run = program.run(&["audit", "show", "log", "--since", "yesterday"]);
    assert!(
        run.code == 2 && run.stderr.contains("such as 2h"),
        "{run:?}"
    );
    // An unknown outcome would match nothing, and look like an empty log.
    for wrong in ["fail", "Failed", ""] {
        let run = program.run(&["audit", "show", "log", "--outcome", wrong]);
        assert!(
            run.code == 2
                && run.stderr.contains(
                    "output, failed, refused, stopped, cancelled, torn, continued, joined, \
                     checkpoint"
                ),
            "{run:?}"
        );
    }
    let run = program.run(&["audit", "show", "c.toml"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(
        run.stderr.contains("3 lines are not records"),
        "{}",
        run.stderr
    );
}

#[test]
fn withholds_unrecorded_answers_on_full_disk() {
    let program = signed("");
    let message = |count: usize| {
        let call = json!({"id": "c", "type": "function",
            "function": {"name": "read_skill", "arguments": "{\"skill_name\":\"a\"}"}});
        json!({"role": "assistant", "content": null, "tool_calls": vec![call; count]}).to_string()
    };
    let respond = ["--config", "c.toml", "respond", "--format", "openai"];
    // Cache the component first, because the limit also bounds files in memory.
    assert_eq!(program.run_with(&respond, &message(1)).code, 0);
    fs::remove_file(program.folder.path().join("log")).unwrap();
    // Each file may have 4,096 bytes.
    let full = "ulimit -f 8";
    let run = program.run_after_with(full, &respond, &message(20));
    assert_eq!(run.code, 0, "{run:?}");
    let answers: Vec<Value> = serde_json::from_str(&run.stdout).unwrap();
    let answered = answers
        .iter()
        .filter(|answer| answer["content"] == "# A\n")
        .count();
    let log = program.folder.path().join("log");
    let recorded = |outcome: &str| {
        let text = fs::read_to_string(&log).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|record| record["outcome"] == outcome).count()
    };
    assert!(answered > 0 && answered < 20, "{answered}: {run:?}");
    assert_eq!(recorded("output"), answered);
    assert_eq!(fs::metadata(&log).unwrap().len(), 4_096);
    assert!(
        run.stderr.contains("in the audit log")
            && run.stderr.contains("the call's answer is withheld"),
        "{}",
        run.stderr
    );
    // Without the limit, the log continues.
    let run = program.run_with(&respond, &message(5));
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!((recorded("output"), recorded("torn")), (answered + 5, 1));
    let run = program.run(&["audit", "verify", "log", "--key", "public"]);
    assert!(
        run.code == 0 && !run.stdout.contains("not proven"),
        "{run:?}"
    );
}

/// The number of processes that are killed, divided among the threads.
const KILLS: u64 = 200;
const THREADS: u64 = 4;

#[test]
fn verifies_logs_of_killed_processes() {
    thread::scope(|threads| {
        for thread in 0..THREADS {
            threads.spawn(move || kill_writers(thread));
        }
    });
}

/// Kills processes that write to a log, each at a different moment.
fn kill_writers(thread: u64) {
    let log = SignedLog::new("");
    let config = "audit_file = \"audit.jsonl\"\ndisabled_tools = []\n[audit]\n\
                  key_file = \"key\"\ncheckpoint_records = 7\n";
    fs::write(log.beside("c.toml"), config).unwrap();
    let call = json!({"id": "x".repeat(1_024), "type": "function",
        "function": {"name": "none", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": vec![call; 16]});
    let message = format!("{message}\n");
    let mut random = thread + 1;
    let (mut records, mut torn) = (0, 0);
    for _ in 0..KILLS / THREADS {
        let mut command =
            Program::new().command(&["--config", "c.toml", "respond", "--format", "openai"]);
        command
            .current_dir(log.beside(""))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = Process::start(&mut command);
        let mut stdin = process.stdin.take().unwrap();
        let size = || fs::metadata(&log.path).map_or(0, |metadata| metadata.len());
        let before = size();
        wait_until("the process writes nothing", || {
            stdin.write_all(message.as_bytes()).unwrap();
            size() > before
        });
        // Pseudorandom with a fixed seed.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let _ = stdin.write_all(message.repeat(4).as_bytes());
        thread::sleep(Duration::from_micros((random >> 33) % 8_000));
        drop(process);
        let report = log.verify(&["audit.jsonl"]);
        assert_eq!(report.problems, [], "killed at {}", size());
        assert!(report.records > records, "{report:?}");
        // Every whole line is a record, and a torn line is not.
        let text = fs::read(&log.path).unwrap();
        let whole = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let end = text.iter().rev().take_while(|byte| **byte != b'\n').count() as u64;
        assert_eq!(report.torn_bytes, end, "{report:?}");
        torn += u64::from(end > 0);
        assert!(
            report.records + torn >= whole && report.records <= whole,
            "{report:?}"
        );
        assert!(report.unproven_records <= 7 + torn, "{report:?}");
        records = report.records;
    }
}

#[test]
fn refuses_key_in_world_writable_folder() {
    let program = signed("");
    let at = |path: &str| program.folder.path().join(path);
    fs::create_dir(at("keys")).unwrap();
    fs::rename(at("key"), at("keys/key")).unwrap();
    let text = fs::read_to_string(at("c.toml")).unwrap();
    program.write("c.toml", text.replace("\"key\"", "\"keys/key\""));
    fs::set_permissions(at("keys"), fs::Permissions::from_mode(0o757)).unwrap();
    for verb in [
        &["--config", "c.toml", "call", "read_skill", "skill_name=a"][..],
        &["audit", "public-key", "keys/key"],
        &["audit", "digest", "--key-file", "keys/key"],
    ] {
        let run = program.run(verb);
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.stderr.contains("mode 0757"), "{run:?}");
        let run = program.run(&[&["--trust", "everyone"], verb].concat());
        assert_eq!(run.code, 0, "{run:?}");
    }
}

#[test]
fn reports_replaced_log_with_foreign_chain_once() {
    let foreign = signed("");
    assert_eq!(read_skill(&foreign), 0);
    let program = signed("");
    let at = |path: &str| program.folder.path().join(path);
    let arguments = ["--config", "c.toml"];
    let mut client = Client::start(program.folder.path(), &arguments, "2025-11-25");
    let mut read = || client.call("read_skill", json!({"skill_name": "a"}));
    assert_eq!(read()["isError"], false);
    // A rename replaces the log atomically.
    fs::copy(foreign.folder.path().join("log"), at("new")).unwrap();
    fs::rename(at("new"), at("log")).unwrap();
    assert_eq!(read()["isError"], false);
    assert_eq!(read()["isError"], false);
    client.hang_up();
    client.wait();
    let message = "somebody changed the audit log";
    client.wait_until_logged(message);
    let reports = client.stderr().matches(message).count();
    assert_eq!(reports, 1, "{}", client.stderr());
}
