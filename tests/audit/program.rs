//! The program's side of the log as evidence: keys, checkpoints that leave the machine,
//! `verify` and `show`, a disk that is full, and a process that is killed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::signed_log::SignedLog;
use crate::support::process::Process;
use crate::support::program::Program;

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
fn a_log_is_verified_from_the_command_line() {
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
    // openssl reads the key, and the program openssl's.
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
    // A checkpoint that was kept shows that the end is gone.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    program.write("kept", [lines[2], lines[4]].concat());
    program.write("cut", lines[..3].concat());
    let run = program.run(&["audit", "verify", "cut", "--key", "public"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(report["missing_before"], 0);
    let kept = [
        "audit",
        "verify",
        "cut",
        "--key",
        "public",
        "--checkpoints",
        "kept",
    ];
    let run = program.run(&kept);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.contains("the log is cut after record 2"),
        "{}",
        run.stdout
    );
    // Nothing is proven by a log without a checkpoint, and by another key.
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
fn a_fifo_is_no_file_of_a_log_and_nothing_waits_for_it() {
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
        let said = run.stderr.contains("`fifo`") && run.stderr.contains("not a regular file");
        assert!(said, "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn the_digest_of_an_argument_is_found_with_the_key() {
    let program = signed("");
    assert_eq!(read_skill(&program), 0);
    let text = fs::read_to_string(program.folder.path().join("log")).unwrap();
    let record: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    for (of, field) in [
        ("{\"skill_name\":\"a\"}", "arguments_hmac"),
        ("# A\n", "answer_hmac"),
    ] {
        let run = program.run_with(&["audit", "digest", "--key-file", "key"], of);
        assert_eq!(record[field], run.stdout.trim_end(), "{record}");
    }
}

#[test]
fn refuses_keys_and_settings_that_sign_nothing() {
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
            "cannot start `./none`",
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
    // Standard error has no chain that could be signed.
    for (log, option, words) in [
        ("audit_file = \"-\"", &[][..], "standard error"),
        ("audit_file = \"log\"", &["--audit", "-"], "standard error"),
    ] {
        program.write("c.toml", format!("{log}\n[audit]\nkey_file = \"key\"\n"));
        let arguments = ["--config", "c.toml", "call", "read_skill", "skill_name=a"];
        let run = program.run(&[option, &arguments[..]].concat());
        assert_eq!(run.code, 4, "{run:?}");
        let place = "`c.toml`, line 3";
        assert!(
            run.stderr.contains(place) && run.stderr.contains(words),
            "{}",
            run.stderr
        );
    }
    // Who says how calls are recorded, or signs, means that they are.
    for settings in [
        "audit = \"required\"",
        "[audit]\nkey_file = \"key\"",
        "[audit]\nmode = \"best_effort\"",
        "[audit]\ncheckpoint_time = \"5s\"",
    ] {
        program.write("c.toml", format!("\n{settings}\n"));
        let run = call();
        assert_eq!(run.code, 4, "{settings}: {run:?}");
        let place = "`c.toml`, line 2";
        assert!(
            run.stderr.contains(place) && run.stderr.contains("there is no audit log: name one"),
            "{settings}: {}",
            run.stderr
        );
    }
    // The key of before, with the mode that stands in the table.
    program.write(
        "c.toml",
        "audit_file = \"log\"\n[audit]\nmode = \"best_effort\"\n",
    );
    assert_eq!(call().code, 0);
}

#[test]
fn checkpoints_are_sent_to_a_process_and_a_socket() {
    let program = signed(
        "checkpoint_command = [\"sh\", \"-c\", \"echo out; env > env; cat > kept\"]\n\
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
    let run = crate::support::program::finish(command, "");
    assert_eq!((run.code, run.stdout.as_str()), (0, "# A\n"), "{run:?}");
    let text = fs::read_to_string(program.folder.path().join("log")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let checkpoints = [lines[0], lines[2]];
    assert_eq!(reader.join().unwrap(), checkpoints);
    let kept = program.folder.path().join("kept");
    let start = Instant::now();
    // The process ends after the program.
    while fs::read_to_string(&kept).unwrap_or_default() != checkpoints.join("\n") + "\n" {
        assert!(start.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(5));
    }
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
        "kept",
    ];
    let run = program.run(&verify);
    assert!(
        run.code == 0 && run.stdout.contains("2 checkpoints that were kept"),
        "{run:?}"
    );
}

#[test]
fn shows_the_records_that_are_asked_for() {
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
    let lines: Vec<&str> = all.lines().collect();
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
        assert_eq!(show(more).lines().count(), count, "{more:?}");
    }
    // Of several files, the records of all.
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
    // A word that no record has would find nothing, and look like an answer.
    for wrong in ["fail", "Failed", ""] {
        let run = program.run(&["audit", "show", "log", "--outcome", wrong]);
        assert!(
            run.code == 2
                && run.stderr.contains(
                    "output, failed, refused, stopped, cancelled, torn, continued, checkpoint"
                ),
            "{run:?}"
        );
    }
    let run = program.run(&["audit", "show", "c.toml"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(
        run.stderr.contains("3 lines are no records"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_full_disk_leaves_no_call_unrecorded_and_nothing_twice() {
    let program = signed("");
    let message = |count: usize| {
        let call = json!({"id": "c", "type": "function",
            "function": {"name": "read_skill", "arguments": "{\"skill_name\":\"a\"}"}});
        json!({"role": "assistant", "content": null, "tool_calls": vec![call; count]}).to_string()
    };
    let respond = ["--config", "c.toml", "respond", "--format", "openai"];
    // A component that the cache has needs no file in memory, which the limit bounds too.
    assert_eq!(program.run_with(&respond, &message(1)).code, 0);
    fs::remove_file(program.folder.path().join("log")).unwrap();
    // 4,096 bytes of each file.
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
        run.stderr.contains("in the audit log") && run.stderr.contains("its answer is withheld"),
        "{}",
        run.stderr
    );
    // There is room again.
    let run = program.run_with(&respond, &message(5));
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!((recorded("output"), recorded("torn")), (answered + 5, 1));
    let run = program.run(&["audit", "verify", "log", "--key", "public"]);
    assert!(
        run.code == 0 && !run.stdout.contains("not proven"),
        "{run:?}"
    );
}

/// The times that a process is killed, by several threads.
const KILLS: u64 = 200;
const THREADS: u64 = 4;

#[test]
fn a_process_that_is_killed_leaves_a_log_that_is_whole_or_says_where_it_is_not() {
    thread::scope(|threads| {
        for thread in 0..THREADS {
            threads.spawn(move || kill_writers(thread));
        }
    });
}

/// Kills one process after another that writes to a log, each at another moment.
fn kill_writers(thread: u64) {
    let log = SignedLog::new("");
    let config = "audit_file = \"audit.jsonl\"\ndisabled_tools = []\n[audit]\n\
                  key_file = \"key\"\ncheckpoint_records = 7\n";
    fs::write(log.beside("c.toml"), config).unwrap();
    let call = json!({"id": "x".repeat(1_024), "type": "function",
        "function": {"name": "none", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": vec![call; 16]});
    let message = format!("{message}\n");
    let mut moment = thread + 1;
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
        let start = Instant::now();
        while size() == before {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "it writes nothing"
            );
            stdin.write_all(message.as_bytes()).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        // By lot, the same in each run of the tests.
        moment = moment
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let _ = stdin.write_all(message.repeat(4).as_bytes());
        thread::sleep(Duration::from_micros((moment >> 33) % 8_000));
        drop(process);
        let report = log.verify(&["audit.jsonl"]);
        assert_eq!(report.problems, [], "killed at {}", size());
        assert!(report.records > records, "{report:?}");
        // What is torn is no record, and every whole line is one.
        let text = fs::read(&log.path).unwrap();
        let whole = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let end = text.iter().rev().take_while(|byte| **byte != b'\n').count() as u64;
        assert_eq!(report.torn_bytes, end, "{report:?}");
        torn += u64::from(end > 0);
        assert!(
            report.records + torn >= whole && report.records <= whole,
            "{report:?}"
        );
        assert!(report.unproven <= 7 + torn, "{report:?}");
        records = report.records;
    }
}
