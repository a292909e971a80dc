//! Starts the program with code that has broken out, again after each attempt that ended it,
//! and judges. It answers cargo as other tests do.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use crate::field::{Ending, Field};
use crate::ground::{VARIABLE, call};
use crate::program::{CHILD, NETWORK};
use crate::table::TABLE;

/// Attempts that a machine may refuse to everybody, or has no such thing for: at most this
/// many of the table reach nothing without a wall. For a user without rights these are 40.
const FEW: usize = 44;

/// What a process may do that reads a stranger's component.
const KEPT_BY_CHILD: [&str; 1] = ["keeps looking at its own limit"];

/// What a process may do that fetches from the network: to resolve names and to connect. The
/// sockets of Unix here were open before; it can make none.
const KEPT_BY_NETWORK: [&str; 10] = [
    "keeps writing to a connection",
    "keeps looking at its own limit",
    "read /etc/hosts",
    "make a TCP socket",
    "make a TCP socket of IPv6",
    "make a UDP socket",
    "connect over TCP",
    "connect a socket that is open",
    "connect a connection elsewhere",
    "send a datagram through a socket that is open",
];

/// What the broker may do besides opening and starting: to write in the folders that it was
/// told of, and whatever the program needs that it starts, which is confined further.
const KEPT_BY_BROKER: [&str; 49] = [
    "keeps reading a skill",
    "keeps listing the root",
    "keeps reading the cache",
    "keeps removing a file of its part of the cache",
    "keeps appending to the audit log",
    "read a file beside the root",
    "read it by openat2",
    "read it by open",
    "read it over the root",
    "read it through a link in the root",
    "read it through a link of the root",
    "read it through a link in the cache",
    "read it through the process's root",
    "read it by a descriptor without rights",
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
    "read its map of memory",
    "read the first process's command",
    "read the kernel's symbols",
    "read the machine's mounts",
    "read the open sockets",
    "read a setting of the kernel",
    "make a file beside the audit log",
    "make a file beside the output folder",
    "write a file beside the output folder",
    "remove a file beside the socket",
    "change the current folder",
    "keeps writing to a connection",
    "keeps looking at its own limit",
    "look at its group",
    "read a process's command",
    "read a process's status",
    "list a process's descriptors",
    "run a program",
    "make a process by vfork",
    "make a process by clone",
    "wait for a process",
    "take capabilities",
    "outlive its parent",
    "ask about filters",
    "ask about rules of files",
];

/// What Landlock alone keeps the broker from, since its version 6: the broker has to be able
/// to end what it starts.
const SIGNALS: [&str; 5] = [
    "signal a process",
    "look whether a process is there",
    "look whether the first process is there",
    "look whether its parent is there",
    "signal a thread of a process",
];

/// Attempts that end the process: no program of this kind asks the kernel for this.
const FATAL: [&str; 57] = [
    "find a file's number",
    "open a file by its number",
    "watch all files",
    "watch one of all files",
    "mount a file system",
    "mount a folder again",
    "unmount",
    "begin a file system",
    "configure a file system",
    "mount what was begun",
    "pick a file system",
    "take a mount",
    "move a mount",
    "change a mount",
    "change the root",
    "change its root",
    "swap to a file",
    "swap no more",
    "set a quota",
    "account for processes",
    "load a module",
    "load a module by a descriptor",
    "remove a module",
    "load another kernel",
    "load another kernel by a descriptor",
    "run a program in the kernel",
    "make a map in the kernel",
    "count events",
    "handle faults of pages",
    "make a ring",
    "enter a ring",
    "register with a ring",
    "look at a keyring",
    "add a key",
    "ask for a key",
    "restart the machine",
    "read the kernel's log",
    "set the clock",
    "set a clock",
    "tune the clock",
    "tune a clock",
    "name the machine",
    "name the machine's domain",
    "reach ports of the machine",
    "reach a port of the machine",
    "look at a segment",
    "hang up its terminal",
    "take a descriptor of a process",
    "move a process's pages",
    "look at a process's pages",
    "trace a process",
    "read a process's memory",
    "write a process's memory",
    "compare processes",
    "leave the namespace of users",
    "join a namespace",
    "choose its personality",
];

/// The tests, and what each does.
const TESTS: [(&str, fn()); 6] = [
    (
        "serving::reaches_nothing_but_its_own_files",
        serving_is_confined,
    ),
    (
        "serving::reaches_almost_all_without_a_wall",
        serving_is_not_confined,
    ),
    ("child::reaches_nothing", child_is_confined),
    (
        "network::connects_and_reaches_no_file_and_no_process",
        network_is_confined,
    ),
    (
        "broker::writes_in_its_folders_alone_and_reaches_no_network",
        broker_is_confined,
    ),
    (
        "release::has_no_code_of_this",
        the_program_has_no_code_of_this,
    ),
];

/// Runs the tests that the arguments choose.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let wanted = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    let wanted: Vec<&String> = wanted.collect();
    let chosen = TESTS.into_iter().filter(|(name, _)| {
        wanted.is_empty()
            || wanted.iter().any(|wanted| match has("--exact") {
                true => *wanted == name,
                false => name.contains(wanted.as_str()),
            })
    });
    let chosen: Vec<_> = chosen.collect();
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

fn serving_is_confined() {
    let field = Field::make();
    let before = field.state();
    let ends = field.try_all(&["serve", "--config", "confined.toml"]);
    for (attempt, end) in TABLE.iter().zip(&ends) {
        match attempt.name.starts_with("keeps ") {
            true => assert_eq!(*end, Ending::Done, "{}", attempt.name),
            false => assert!(end.is_refused(), "{}: {end:?}", attempt.name),
        }
    }
    fatal_ones_ended_the_process(&ends);
    assert_eq!(field.state(), before);
    field.reached_nobody();
}

fn serving_is_not_confined() {
    let field = Field::make();
    let before = field.state();
    let ends = field.try_all(&["serve", "--config", "confined.toml", "--confine", "off"]);
    let refused = TABLE.iter().zip(&ends).filter(|(_, end)| end.is_refused());
    let refused: Vec<_> = refused.map(|(attempt, end)| (attempt.name, end)).collect();
    assert!(TABLE.len() - refused.len() >= 120, "{refused:?}");
    assert!(refused.len() <= FEW, "{refused:?}");
    assert!(!ends.contains(&Ending::Killed), "{refused:?}");
    assert_ne!(field.state(), before);
}

fn child_is_confined() {
    let field = Field::make();
    let before = field.state();
    let ends = field.try_all(&[CHILD]);
    for (attempt, end) in TABLE.iter().zip(&ends) {
        let is_kept = KEPT_BY_CHILD.contains(&attempt.name);
        assert_eq!(end.is_refused(), !is_kept, "{}: {end:?}", attempt.name);
    }
    fatal_ones_ended_the_process(&ends);
    assert_eq!(field.state(), before);
    field.reached_nobody();
}

fn network_is_confined() {
    let field = Field::make();
    let before = field.state();
    let ends = field.try_all(&[CHILD, NETWORK]);
    for (attempt, end) in TABLE.iter().zip(&ends) {
        let is_kept = KEPT_BY_NETWORK.contains(&attempt.name);
        assert_eq!(end.is_refused(), !is_kept, "{}: {end:?}", attempt.name);
    }
    fatal_ones_ended_the_process(&ends);
    assert_eq!(field.state(), before);
}

fn broker_is_confined() {
    let field = Field::make();
    // It has written into these.
    let others = |mut state: BTreeMap<_, _>| {
        state.retain(|name: &String, _| {
            !["logs", "out", "run"]
                .iter()
                .any(|own| name.starts_with(own))
        });
        state
    };
    let before = others(field.state());
    let ends = field.try_all_by(|from| field.ask_broker(from));
    let scopes_signals = call(libc::SYS_landlock_create_ruleset, &[0, 0, 1]) >= Ok(6);
    // `/proc` may be mounted so that it hides processes from their user.
    let first_is_hidden = fs::read("/proc/1/cmdline").is_err();
    for (attempt, end) in TABLE.iter().zip(&ends) {
        let depends = SIGNALS.contains(&attempt.name) && !scopes_signals
            || attempt.name == "read the first process's command" && first_is_hidden;
        let is_kept = KEPT_BY_BROKER.contains(&attempt.name);
        assert!(
            depends || end.is_refused() != is_kept,
            "{}: {end:?}",
            attempt.name
        );
    }
    fatal_ones_ended_the_process(&ends);
    assert_eq!(others(field.state()), before);
    field.reached_nobody();
}

fn fatal_ones_ended_the_process(ends: &[Ending]) {
    let all = TABLE.iter().zip(ends);
    let fatal: Vec<_> = all
        .filter(|(attempt, _)| FATAL.contains(&attempt.name))
        .collect();
    assert_eq!(fatal.len(), FATAL.len());
    for (attempt, end) in fatal {
        assert_eq!(*end, Ending::Killed, "{}", attempt.name);
    }
}

fn the_program_has_no_code_of_this() {
    let has = |program: &Path| {
        let bytes = fs::read(program).unwrap();
        let mut places = bytes.windows(VARIABLE.len());
        places.any(|place| place == VARIABLE.as_bytes())
    };
    assert!(has(&std::env::current_exe().unwrap()));
    assert!(!has(Path::new(env!("CARGO_BIN_EXE_skillhost"))));
}
