//! Records on stderr without a reader: a pipe or a terminal.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};

use crate::support::http::meta;
use crate::support::process::Process;
use crate::support::program::{self, Program};
use crate::support::watchdog::patience;

/// The number of calls. Their records have long ids, so not all of them fit into a pipe.
const CALLS: usize = 100;

/// A Python script that runs a command with a terminal as stderr, which nobody reads.
const ON_TERMINAL: &str = "import pty, subprocess, sys
_, terminal = pty.openpty()
sys.exit(subprocess.call(sys.argv[1:], stderr=terminal))";

#[test]
fn answers_while_nobody_reads_stderr() {
    for has_output in [false, true] {
        assert_answered(has_output, |command| command);
    }
}

#[test]
fn refuses_a_required_log_on_closed_stderr() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("best.toml", "audit_file = \"-\"\naudit = \"best_effort\"\n");
    let call = ["call", "read_skill", "skill_name=a"];
    for (stderr, options, is_answered) in [
        ("2>&-", &["--audit", "-"][..], false),
        ("2>/dev/null", &["--audit", "-"], true),
        ("2>&-", &["--config", "best.toml"], true),
        ("2>&-", &[], true),
    ] {
        for confine in ["auto", "off"] {
            let options = [
                &["--skills", "skills"],
                options,
                &call,
                &["--confine", confine],
            ];
            let run = program.run_after_with(&format!("exec {stderr}"), &options.concat(), "");
            let answer = if is_answered { (0, "# A\n") } else { (4, "") };
            assert_eq!((run.code, &*run.stdout), answer, "{stderr} {options:?}");
        }
    }
}

#[test]
fn answers_while_nobody_reads_a_terminal() {
    for has_output in [false, true] {
        assert_answered(has_output, |command| {
            let mut python = program::command("python3".as_ref());
            python
                .args(["-c", ON_TERMINAL])
                .arg(command.get_program())
                .args(command.get_args())
                .current_dir(command.get_current_dir().unwrap())
                .env("PATH", std::env::var_os("PATH").unwrap());
            python
        });
    }
}

/// Sends calls while nobody reads stderr. With `has_output`, the mode is `best_effort`, and every
/// call must have an output. Otherwise the mode is `required`, and calls are refused once their
/// records no longer fit into the pipe.
fn assert_answered(has_output: bool, wrap: impl FnOnce(Command) -> Command) {
    let mode = if has_output {
        "best_effort"
    } else {
        "required"
    };
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let text = format!("skills = [\"skills\"]\naudit_file = \"-\"\naudit = \"{mode}\"\n");
    program.write("c.toml", text);
    let mut command = wrap(program.command(&["--config", "c.toml", "serve"]));
    let mut process = Process::start(&mut command);
    let mut input = process.stdin.take().unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let (sender, answers) = channel();
    thread::spawn(move || {
        for line in output.lines() {
            let _ = sender.send(line.unwrap());
        }
    });
    for id in 0..CALLS {
        let params =
            json!({"name": "read_skill", "arguments": {"skill_name": "a"}, "_meta": meta()});
        let long = format!("{id} {}", "i".repeat(1000));
        let call = json!({"jsonrpc": "2.0", "id": long, "method": "tools/call", "params": params});
        writeln!(input, "{call}").unwrap();
        let answer = answers.recv_timeout(patience());
        let answer = answer.unwrap_or_else(|_| panic!("{mode}: call {id} has no answer"));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        if text != "# A\n" {
            assert!(
                !has_output && text.contains("could not be recorded"),
                "{answer}"
            );
        } else if id + 1 == CALLS {
            assert!(has_output, "the pipe holds all records");
        }
    }
}
