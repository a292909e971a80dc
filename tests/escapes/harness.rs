//! Runs the escape tests: starts the program with escaped code, which tries each row of the table
//! of escapes. Restarts the program after each row that killed it, and checks the outcomes. Rows
//! whose names begin with `keeps` must succeed in the serving process.
//!
//! Its command line and output are like those of Rust's test programs.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use crate::escaped::{CHILD, NETWORK};
use crate::fixture::{Fixture, Outcome};
use crate::table::{GRANTED, SECRET, TABLE};
use crate::targets::{ESCAPES_VARIABLE, call};

/// The maximum number of rows that may fail in an unconfined process. A machine may not support
/// them, or refuse them to every process. For an unprivileged user, 40 fail.
const MAX_UNSUPPORTED: usize = 44;

/// The rows that succeed in a process that reads a third-party component.
const ALLOWED_IN_CHILD: [&str; 1] = ["keeps reading its own limit"];

/// The rows that succeed in a process like the egress process, which resolves names and connects.
/// It cannot create a single Unix socket, but can create a pair of connected ones.
const ALLOWED_IN_NETWORK: [&str; 11] = [
    "keeps creating a stream socket pair",
    "keeps writing to a connection",
    "keeps reading its own limit",
    "read /etc/hosts",
    "create a TCP socket",
    "create a TCP socket for IPv6",
    "create a UDP socket",
    "connect over TCP",
    "connect an open socket",
    "reconnect a connection elsewhere",
    "send a datagram through an open socket",
];

/// The rows that succeed in the broker: reading files, writing in the folders of its policy, and
/// what the programs that it starts need before they confine themselves.
const ALLOWED_IN_BROKER: [&str; 50] = [
    "keeps reading a skill",
    "keeps listing the root",
    "keeps reading the cache",
    "keeps removing a file in the confined cache",
    "keeps appending to the audit log",
    "read a file beside the root",
    "read it by openat2",
    "read it by open",
    "read it through `..` from the root",
    "read it through a symlink in a skill",
    "read it through a symlink in the root",
    "read it through a symlink in the cache",
    "read it through /proc/self/root",
    "read it through an O_PATH descriptor",
    "list the folder above the root",
    "list a folder beside the root",
    "list the root of the machine",
    "list /tmp",
    "list /proc",
    "list /dev",
    "list the current folder",
    "read the program",
    "read /etc/hosts",
    "read its own environment",
    "read its memory map",
    "read the command of process 1",
    "read the kernel's symbols",
    "read the mounts",
    "read the open sockets",
    "read a kernel setting",
    "create a file beside the audit log",
    "create a file beside the output folder",
    "write a file beside the output folder",
    "remove a file beside the socket",
    "change the current folder",
    "keeps writing to a connection",
    "keeps reading its own limit",
    "change its own limit",
    "signal its own process group",
    "read the command of a process",
    "read the status of a process",
    "list the descriptors of a process",
    "run a program",
    "create a process by vfork",
    "create a process by clone",
    "wait for a process",
    "set capabilities",
    "outlive its parent",
    "query seccomp",
    "query Landlock",
];

/// The rows that only Landlock refuses in the broker, from ABI version 6 on. The seccomp filter
/// allows signals, because the broker must be able to kill the processes that it starts.
const SIGNALS: [&str; 5] = [
    "signal a process",
    "check whether a process exists",
    "check whether process 1 exists",
    "check whether the parent exists",
    "signal a thread of a process",
];

/// The rows that kill the process: their system calls are on the fatal list of the filter.
const FATAL: [&str; 57] = [
    "get the handle of a file",
    "open a file by its handle",
    "watch all files with fanotify",
    "watch one file with fanotify",
    "mount a file system",
    "bind-mount a folder",
    "unmount",
    "create a file system context",
    "configure a file system context",
    "mount a file system context",
    "pick a mounted file system",
    "open a mount tree",
    "move a mount",
    "change a mount",
    "change the root mount",
    "change the root of the process",
    "turn swap on",
    "turn swap off",
    "set a quota",
    "turn process accounting on",
    "load a kernel module",
    "load a kernel module by a descriptor",
    "remove a kernel module",
    "load another kernel",
    "load another kernel by a descriptor",
    "load a BPF program",
    "create a BPF map",
    "open a perf event",
    "handle page faults",
    "set up io_uring",
    "enter io_uring",
    "register with io_uring",
    "read a keyring",
    "add a key",
    "request a key",
    "restart the machine",
    "read the kernel's log",
    "set the clock",
    "set a POSIX clock",
    "adjust the clock",
    "adjust a POSIX clock",
    "set the host name",
    "set the domain name",
    "use all I/O ports",
    "use an I/O port",
    "read a segment descriptor",
    "hang up the terminal",
    "copy a descriptor of a process",
    "migrate the pages of a process",
    "read the page locations of a process",
    "trace a process",
    "read the memory of a process",
    "write the memory of a process",
    "compare processes",
    "leave the user namespace",
    "join a namespace",
    "change the personality",
];

/// The tests, by name.
const TESTS: [(&str, fn()); 7] = [
    (
        "serving::reaches_only_its_own_files",
        serving_process_is_confined,
    ),
    (
        "serving::reaches_almost_everything_unconfined",
        unconfined_process_reaches_almost_everything,
    ),
    (
        "serving::sends_only_granted_requests",
        serving_process_sends_only_granted_requests,
    ),
    ("child::reaches_nothing", child_process_is_confined),
    (
        "network::only_connects_and_resolves_names",
        network_process_is_confined,
    ),
    ("broker::writes_only_in_its_folders", broker_is_confined),
    (
        "release::contains_no_escape_code",
        program_contains_no_escape_code,
    ),
];

/// Runs the tests that the arguments choose.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let matches = |filter: &str, name: &str| {
        if has("--exact") {
            filter == name
        } else {
            name.contains(filter)
        }
    };
    let chosen: Vec<_> = TESTS
        .into_iter()
        .filter(|(name, _)| {
            filters.is_empty() || filters.iter().any(|filter| matches(filter, name))
        })
        .collect();
    if has("--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let plural = if chosen.len() == 1 { "" } else { "s" };
    println!("running {} test{plural}", chosen.len());
    let mut failed = 0;
    for (name, test) in &chosen {
        let passed = catch_unwind(AssertUnwindSafe(test)).is_ok();
        failed += usize::from(!passed);
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    }
    let (word, passed) = (
        if failed == 0 { "ok" } else { "FAILED" },
        chosen.len() - failed,
    );
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {} \
         filtered out",
        TESTS.len() - chosen.len()
    );
    ExitCode::from(u8::from(failed > 0))
}

fn serving_process_is_confined() {
    let fixture = Fixture::new();
    let before = fixture.state();
    let outcomes = fixture.run_table(&["serve", "--config", "confined.toml"]);
    for (escape, outcome) in TABLE.iter().zip(&outcomes) {
        if escape.name.starts_with("keeps ") {
            assert_eq!(*outcome, Outcome::Done, "{}", escape.name);
        } else {
            assert!(outcome.is_refused(), "{}: {outcome:?}", escape.name);
        }
    }
    assert_fatal_rows_killed(&outcomes);
    assert_eq!(fixture.state(), before);
    fixture.assert_nothing_connected();
}

fn serving_process_sends_only_granted_requests() {
    let fixture = Fixture::with_egress();
    let outcomes = fixture.run_table(&["serve", "--config", "confined.toml"]);
    for (escape, outcome) in fixture.table().iter().zip(&outcomes) {
        if escape.name.starts_with("keeps ") {
            assert_eq!(*outcome, Outcome::Done, "{}", escape.name);
        } else {
            assert!(outcome.is_refused(), "{}: {outcome:?}", escape.name);
        }
    }
    fixture.assert_nothing_connected();
    let requests = fixture.requests();
    // The grant allows one path of the plain server, and every path of the server with TLS.
    let granted = [
        format!("GET {GRANTED} HTTP/1.1"),
        "GET / HTTP/1.1".to_owned(),
    ];
    for request in &requests {
        let line = request.lines().next().unwrap_or_default();
        assert!(granted.contains(&line.to_owned()), "{request}");
    }
    // The granted host received the secret.
    assert!(requests.concat().contains(SECRET), "{requests:?}");
}

fn unconfined_process_reaches_almost_everything() {
    let fixture = Fixture::new();
    let before = fixture.state();
    let outcomes = fixture.run_table(&["serve", "--config", "confined.toml", "--confine", "off"]);
    let refused: Vec<_> = TABLE
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.is_refused())
        .map(|(escape, outcome)| (escape.name, outcome))
        .collect();
    assert!(TABLE.len() - refused.len() >= 120, "{refused:?}");
    assert!(refused.len() <= MAX_UNSUPPORTED, "{refused:?}");
    assert!(!outcomes.contains(&Outcome::Killed), "{refused:?}");
    assert_ne!(fixture.state(), before);
}

fn child_process_is_confined() {
    let fixture = Fixture::new();
    let before = fixture.state();
    let outcomes = fixture.run_table(&[CHILD]);
    for (escape, outcome) in TABLE.iter().zip(&outcomes) {
        let is_allowed = ALLOWED_IN_CHILD.contains(&escape.name);
        assert_eq!(
            outcome.is_refused(),
            !is_allowed,
            "{}: {outcome:?}",
            escape.name
        );
    }
    assert_fatal_rows_killed(&outcomes);
    assert_eq!(fixture.state(), before);
    fixture.assert_nothing_connected();
}

fn network_process_is_confined() {
    let fixture = Fixture::new();
    let before = fixture.state();
    let outcomes = fixture.run_table(&[CHILD, NETWORK]);
    for (escape, outcome) in TABLE.iter().zip(&outcomes) {
        let is_allowed = ALLOWED_IN_NETWORK.contains(&escape.name);
        assert_eq!(
            outcome.is_refused(),
            !is_allowed,
            "{}: {outcome:?}",
            escape.name
        );
    }
    assert_fatal_rows_killed(&outcomes);
    assert_eq!(fixture.state(), before);
}

fn broker_is_confined() {
    let fixture = Fixture::new();
    // The broker writes in these folders.
    let without_broker_folders = |mut state: BTreeMap<_, _>| {
        state.retain(|name: &String, _| {
            !["logs", "out", "run"]
                .iter()
                .any(|own| name.starts_with(own))
        });
        state
    };
    let before = without_broker_folders(fixture.state());
    let outcomes = fixture.run_table_with(|first_row| fixture.run_in_broker(first_row));
    let landlock = call(libc::SYS_landlock_create_ruleset, &[0, 0, 1]);
    let scopes_signals = landlock.is_ok_and(|version| version >= 6);
    // `/proc` may be mounted so that it hides the processes of other users.
    let hides_process_1 = fs::read("/proc/1/cmdline").is_err();
    for (escape, outcome) in TABLE.iter().zip(&outcomes) {
        let depends_on_machine = SIGNALS.contains(&escape.name) && !scopes_signals
            || escape.name == "read the command of process 1" && hides_process_1;
        let is_allowed = ALLOWED_IN_BROKER.contains(&escape.name);
        assert!(
            depends_on_machine || outcome.is_refused() != is_allowed,
            "{}: {outcome:?}",
            escape.name
        );
    }
    assert_fatal_rows_killed(&outcomes);
    assert_eq!(without_broker_folders(fixture.state()), before);
    fixture.assert_nothing_connected();
}

/// Checks that each row on the fatal list killed its process.
fn assert_fatal_rows_killed(outcomes: &[Outcome]) {
    let fatal: Vec<_> = TABLE
        .iter()
        .zip(outcomes)
        .filter(|(escape, _)| FATAL.contains(&escape.name))
        .collect();
    assert_eq!(fatal.len(), FATAL.len());
    for (escape, outcome) in fatal {
        assert_eq!(*outcome, Outcome::Killed, "{}", escape.name);
    }
}

fn program_contains_no_escape_code() {
    // Only escape code names this variable.
    let contains_escape_code = |program: &Path| {
        let bytes = fs::read(program).unwrap();
        let mut windows = bytes.windows(ESCAPES_VARIABLE.len());
        windows.any(|window| window == ESCAPES_VARIABLE.as_bytes())
    };
    assert!(contains_escape_code(&std::env::current_exe().unwrap()));
    assert!(!contains_escape_code(Path::new(env!(
        "CARGO_BIN_EXE_skillhost"
    ))));
}
