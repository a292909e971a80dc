//! Signals that a program inherits as blocked or ignored.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};
use skillhost_helper::{Kind, write_message};

use crate::support::guests;
use crate::support::process::Process;
use crate::support::program::{self, Program};

/// Returns a command that runs the program with options of `env`, such as `--block-signal`.
fn command(program: &Program, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = program::command(Path::new("env"));
    command
        .args(options)
        .arg(env!("CARGO_BIN_EXE_skillhost"))
        .args(arguments)
        .current_dir(program.folder.path());
    command
}

fn with_hostile_guest() -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write(
        "skillhost.toml",
        "skills = [\"skills\"]\ntools = [\"tools\"]\n[grants.\"hostile.wasm\"]\nskills = [\"a\"]\n",
    );
    let guest = fs::read(guests().join("hostile.wasm")).unwrap();
    program.write("tools/hostile.wasm", guest);
    program
}

#[test]
fn overflow_of_stack_is_reported_with_blocked_signals() {
    let program = with_hostile_guest();
    let call = [
        "--config",
        "skillhost.toml",
        "call",
        "hostile_recur_in_registers",
        "skill_name=a",
    ];
    let plain = program::finish(command(&program, &[], &call), "");
    assert!(plain.stderr.contains("stack"), "{plain:?}");
    let blocked = program::finish(command(&program, &["--block-signal"], &call), "");
    assert_eq!((blocked.code, &blocked.stderr), (plain.code, &plain.stderr));
}

#[test]
fn sigterm_ends_server_despite_inherited_signal_state() {
    let program = with_hostile_guest();
    for options in [
        &["--block-signal"][..],
        &["--ignore-signal=TERM"],
        &["--ignore-signal=CHLD"],
    ] {
        let serve = ["--config", "skillhost.toml", "serve"];
        let mut command = command(&program, options, &serve);
        let mut server = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        let stdin = server.stdin.as_mut().unwrap();
        stdin.write_all(ping.as_bytes()).unwrap();
        let answer = server.first_line();
        assert!(answer.contains("\"id\":1"), "{options:?}: {answer}");
        server.signal(Signal::TERM);
        assert_eq!(server.wait().code(), Some(0), "{options:?}");
    }
}

#[test]
fn program_stops_ignoring_inherited_signals() {
    let program = Program::new();
    let options = ["--ignore-signal=TERM", "--ignore-signal=CHLD"];
    // Starts a helper process, because a server handles SIGTERM in any case.
    let mut command = command(&program, &options, &[skillhost::COMPILE_ARGUMENT]);
    let mut helper = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::null()));
    // The pipe is too small for this message. So once the write returns, the helper has read a part
    // of it, and has already reset its signals.
    let stdin = helper.stdin.as_mut().unwrap();
    write_message(stdin, Kind::Request, &[0; 1 << 20]).unwrap();
    let pid = Pid::from_raw(i32::try_from(helper.pid).unwrap()).unwrap();
    for signal in [Signal::TERM, Signal::CHILD] {
        assert!(!Process::ignores(pid, signal), "{signal:?}");
    }
}
