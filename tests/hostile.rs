//! Guests that attack their host. Each attack ends as the table says and reveals nothing from
//! outside its skill, and the next call works. Each tool of the hostile guest must be in the
//! table.

mod isolation;
mod release;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use skillhost::{CallError, FailureKind, Grant, Host, Limits, Output, Stop};

use crate::support::folders::{CANARY, Folders};
use crate::support::{builder, call, guests, model_text};

/// The ending of an attack.
#[derive(Debug)]
enum Ending {
    /// The host stopped it at its deadline.
    Time,
    /// The host stopped it at the limit on memory.
    Memory,
    Handles,
    TooLarge,
    Stack,
    /// It trapped, and the operator's message contains these words.
    Trap(&'static str),
    /// The host returned this error code.
    Refused(&'static str),
    /// It reported a failure of this kind, with a message that starts with these words.
    Fails(FailureKind, &'static str),
    /// It gave a harmless answer that starts with these words.
    Answers(&'static str),
}

use Ending::{Answers, Fails, Handles, Memory, Refused, Stack, Time, TooLarge, Trap};

/// One attack: the tool without its prefix, its arguments, and its ending.
struct Attack {
    tool: &'static str,
    path: Option<&'static str>,
    number: Option<u64>,
    ending: Ending,
}

fn attack(tool: &'static str, ending: Ending) -> Attack {
    Attack {
        tool,
        path: None,
        number: None,
        ending,
    }
}

impl Attack {
    fn on_path(mut self, path: &'static str) -> Self {
        self.path = Some(path);
        self
    }

    fn with_number(mut self, number: u64) -> Self {
        self.number = Some(number);
        self
    }

    fn arguments(&self) -> Value {
        let mut arguments = json!({"skill_name": "a"});
        if let Some(path) = self.path {
            arguments["path"] = path.into();
        }
        if let Some(number) = self.number {
            arguments["number"] = number.into();
        }
        arguments
    }

    fn run(&self, host: &Host) -> Result<Output, CallError> {
        call(host, &format!("hostile_{}", self.tool), self.arguments())
    }

    fn name(&self) -> String {
        format!("{} {}", self.tool, self.arguments())
    }
}

const MIB: u64 = 1 << 20;

/// Lists every attack with its ending. Limits are the defaults, but an attack that
/// would never end has [`SHORT`] time.
fn attacks() -> Vec<Attack> {
    vec![
        // Writing.
        attack("create", Refused("read-only")).on_path("new.txt"),
        attack("create", Refused("read-only")).on_path("../new.txt"),
        attack("create", Refused("read-only")).on_path("out/new.txt"),
        attack("create_exclusively", Refused("read-only")).on_path("new.txt"),
        attack("truncate", Refused("read-only")),
        attack("truncate", Refused("read-only")).on_path("out/canary.txt"),
        attack("open_for_writing", Refused("read-only")),
        attack("open_for_changing", Refused("read-only")).on_path("docs"),
        attack("write", Refused("read-only")),
        attack("write_through_stream", Refused("read-only")),
        attack("append_through_stream", Refused("read-only")),
        attack("set_size", Refused("read-only")),
        attack("set_times", Refused("read-only")),
        attack("set_times_at", Refused("read-only")),
        attack("set_times_at", Refused("read-only")).on_path("out/canary.txt"),
        attack("rename", Refused("read-only")),
        attack("link", Refused("read-only")),
        attack("link", Refused("read-only")).on_path("out/canary.txt"),
        attack("symlink", Refused("read-only")),
        attack("unlink", Refused("read-only")),
        attack("unlink", Refused("read-only")).on_path("out/canary.txt"),
        attack("make_folder", Refused("read-only")),
        attack("remove_folder", Refused("read-only")),
        attack("sync", Refused("read-only")),
        attack("write_by_std", Refused("ReadOnlyFilesystem")).on_path("new.txt"),
        // Handles. `isolation.rs` tries many more numbers.
        attack("guess_file", Trap("unknown handle index")).with_number(77),
        attack("guess_file", Trap("unknown handle index")).with_number(u64::MAX),
        attack("guess_listing", Trap("unknown handle index")).with_number(77),
        attack("guess_stream", Trap("unknown handle index")).with_number(77),
        attack("guess_drop", Trap("unknown handle index")).with_number(77),
        attack("use_after_drop", Trap("unknown handle index")),
        // Time, stack and memory.
        attack("compute", Time),
        attack("sleep", Time),
        attack("poll_for_ever", Time),
        attack("poll_one_often", Time).with_number(100),
        attack("poll_one_often", Handles).with_number(100_000),
        attack("poll_nothing", Trap("empty poll list")),
        attack("wait_for_the_end_of_time", Time),
        attack("call_host_for_ever", Time),
        attack("recur", Trap("out of bounds memory access")),
        attack("recur_in_registers", Stack),
        attack("take_memory", Memory),
        attack("take_memory_and_answer", Answers("there were ")),
        // Answers.
        attack("large", TooLarge).with_number(17 * MIB),
        attack("large", TooLarge).with_number(40 * MIB),
        attack("large", Memory).with_number(70 * MIB),
        attack("large", Trap("unreachable")).with_number(u64::MAX),
        attack("large_details", TooLarge).with_number(17 * MIB),
        attack("large_failure", TooLarge).with_number(17 * MIB),
        attack("longer_than_memory", Trap("out of bounds")),
        attack("twice", TooLarge).with_number(40 * MIB),
        attack("no_text", Trap("utf-8")),
        attack("no_text_details", Trap("utf-8")),
        attack("no_json", Answers("done")),
        attack("brackets", Answers("done")).with_number(100_000),
        attack("repeated_key", Answers("done")),
        attack("escapes", Answers("\u{1b}]0;title\u{7}")).on_path("\u{1b}]0;title\u{7}\u{1b}[2J"),
        // Floods.
        attack("files", Handles),
        attack("hold_files", Time).with_number(200),
        attack("folders", Handles),
        attack("listings", Handles).on_path("empty"),
        attack("listings", Handles).on_path("full"),
        attack("entries", Refused("overflow")).on_path("full"),
        attack("streams", Handles),
        attack("timers", Handles),
        attack("preopens", Handles),
        attack("print", Answers("printed")).with_number(100),
        attack("print_escapes", Answers("printed")).with_number(1000),
        attack("print_unasked", Answers("printed")).with_number(40 * MIB),
        attack("print_zeroes", Trap("cannot write more zeroes")).with_number(u64::MAX),
        attack("random", Trap("exceeds limit")).with_number(4 << 30),
        attack("random", Trap("exceeds limit")).with_number(u64::MAX),
        attack("insecure_random", Trap("exceeds limit")).with_number(4 << 30),
        attack("random_for_ever", Time).with_number(MIB),
        attack("random", Trap("exceeds limit")).with_number(50 * MIB),
        attack("read_all", Answers("4 bytes, end: true")),
        attack("read_far", Refused("invalid")),
        attack("stream_far", Fails(FailureKind::Refused, "")),
        attack("skip_far", Answers("skipped 4, then Err(\"closed\")")),
        // Expensive paths.
        attack("long", Refused("name-too-long")).with_number(10 * MIB),
        attack("many_steps", Refused("name-too-long")).with_number(5 * MIB),
        attack("down_and_up", Refused("name-too-long")).with_number(MIB),
        attack("stat_down_and_up", Refused("name-too-long")).with_number(MIB),
        attack("readlink_down_and_up", Refused("name-too-long")).with_number(MIB),
        // Reaching outside.
        attack("environment", Answers("([], [], None)")),
        attack("standard_input", Refused("closed")),
        attack("tcp", Refused("access-denied")),
        attack("udp", Refused("access-denied")),
        attack("resolve", Refused("access-denied")).on_path("localhost"),
        attack("connect_by_std", Fails(FailureKind::Refused, "")).on_path("127.0.0.1:80"),
        attack("connect_by_std", Fails(FailureKind::Refused, "")).on_path("localhost:80"),
        attack("start_process", Refused("Unsupported")),
        attack("start_thread", Refused("Unsupported")),
        attack("skills", Answers("a")),
        attack("exit_with_success", Trap("")),
        attack("exit_with_failure", Trap("")),
        attack("change", Answers("done")),
        attack("descend", Answers("went down 1")).on_path("docs"),
        attack("break_off", Trap("unreachable")).on_path("\u{1b}[2J{}"),
    ]
}

/// The time limit of an attack that would never end.
const SHORT: Duration = Duration::from_millis(50);

/// The time by which a call with the limit [`SHORT`] has ended, even on a busy machine. No attack
/// may delay its end, for example by a request that takes the host long.
const LATEST_END: Duration = Duration::from_secs(5);

/// The limit on directory entries. One of the folders has more.
const ENTRIES: usize = 50;

/// Makes a skill to attack from, one that is not granted, and a canary outside.
fn folders() -> Folders {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    folders.write("a/docs/inside.txt", "inside");
    for number in 0..=ENTRIES {
        folders.write(&format!("a/full/{number}.txt"), "");
    }
    fs::create_dir(folders.root.join("a/empty")).unwrap();
    // One listing of this folder is within the limit, and a second one exceeds it.
    for number in 0..ENTRIES / 2 + 1 {
        folders.write(&format!("a/some/{number}.txt"), "");
    }
    folders.write("secret/SKILL.md", CANARY);
    std::os::unix::fs::symlink(&folders.outside, folders.root.join("a/out")).unwrap();
    folders
}

/// Makes a host for the hostile guest, whose tools may read the skill `a`.
fn host(folders: &Folders) -> Host {
    host_with(folders, Limits::default().time)
}

fn host_with(folders: &Folders, time: Duration) -> Host {
    let mut limits = Limits::default();
    limits.directory_entries = ENTRIES;
    limits.time = time;
    let grant = Grant::new().skills(["a"]).unwrap().limits(limits);
    let builder = builder().skills(&folders.root).tools(guests());
    crate::support::build(builder.grant("hostile.wasm", grant))
}

/// A host with the default time limit, and one with the limit [`SHORT`].
struct Hosts {
    default: Host,
    short: Host,
}

impl Hosts {
    fn new(folders: &Folders) -> Self {
        Self {
            default: host(folders),
            short: host_with(folders, SHORT),
        }
    }

    /// Runs an attack. An attack that would never end gets the short limit.
    fn run(&self, attack: &Attack) -> Result<Output, CallError> {
        match attack.ending {
            Time => attack.run(&self.short),
            _ => attack.run(&self.default),
        }
    }
}

/// Describes the result of an attack. Returns `None` if it is the expected ending.
fn mismatch(ending: &Ending, seen: &Result<Output, CallError>) -> Option<String> {
    let stop = match seen {
        Err(CallError::Stopped { stop, .. }) => Some(stop),
        _ => None,
    };
    let as_expected = match (ending, seen) {
        (Time, _) => matches!(stop, Some(Stop::Time(limit)) if *limit == SHORT),
        (Memory, _) => matches!(stop, Some(Stop::Memory(_))),
        (Handles, _) => matches!(stop, Some(Stop::Handles(_))),
        (Stack, _) => matches!(stop, Some(Stop::Stack(_))),
        (TooLarge, _) => matches!(stop, Some(Stop::Output(_))),
        (Trap(reason), _) => matches!(stop, Some(Stop::Trap(why)) if why.contains(reason)),
        (Refused(word), Err(CallError::Failed(failure))) => {
            failure.kind == FailureKind::Refused && failure.message == *word
        }
        (Fails(kind, start), Err(CallError::Failed(failure))) => {
            failure.kind == *kind && failure.message.starts_with(start)
        }
        (Answers(start), Ok(output)) => output.text().starts_with(start),
        _ => false,
    };
    (!as_expected).then(|| {
        let seen = format!("{seen:?}");
        let seen = match seen.char_indices().nth_back(400) {
            Some((start, _)) => &seen[start..],
            None => &seen,
        };
        format!("expected {ending:?}, got … {seen}")
    })
}

/// Checks whether a text reveals something from outside the skill.
fn reveals(folders: &Folders, text: &str) -> bool {
    let base = folders.root.parent().unwrap().to_str().unwrap();
    text.contains(CANARY) || text.contains(base) || text.contains("root:x:0")
}

/// Returns everything that a caller can see of an answer.
fn shown(seen: Result<Output, CallError>) -> String {
    let record = match &seen {
        Ok(output) => output.record(),
        Err(error) => error.record(),
    };
    format!("{record}{seen:?}") + &skillhost::message::model_text(seen)
}

fn next_call_works(host: &Host) {
    let arguments = json!({"skill_name": "a", "file_path": "SKILL.md"});
    assert_eq!(model_text(host, "read_file_in_skill", arguments), "# A\n");
}

/// Returns the size, the time of the last change and the contents of everything
/// below a folder.
fn state(folder: &Path) -> BTreeMap<String, (u64, SystemTime, Vec<u8>)> {
    let mut state = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let facts = fs::symlink_metadata(&path).unwrap();
        let content = if facts.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        if facts.is_dir() {
            state.append(&mut self::state(&path));
        }
        let facts = (facts.len(), facts.modified().unwrap(), content);
        state.insert(path.display().to_string(), facts);
    }
    state
}

#[test]
fn table_names_every_hostile_tool() {
    let folders = folders();
    let named: BTreeSet<String> = attacks()
        .iter()
        .map(|attack| format!("hostile_{}", attack.tool))
        .collect();
    let loaded: BTreeSet<String> = host(&folders)
        .definitions()
        .into_iter()
        .map(|definition| definition.name)
        .filter(|name| name.starts_with("hostile_"))
        .collect();
    assert_eq!(loaded, named);
}

#[test]
fn attacks_end_as_listed_and_next_call_works() {
    let folders = folders();
    let hosts = Hosts::new(&folders);
    let base = folders.root.parent().unwrap();
    let before = state(base);
    let mut wrong = Vec::new();
    for attack in attacks() {
        let start = Instant::now();
        let seen = hosts.run(&attack);
        if matches!(attack.ending, Time) && start.elapsed() > LATEST_END {
            wrong.push(format!(
                "{}: ended after {:?}",
                attack.name(),
                start.elapsed()
            ));
        }
        if let Some(how) = mismatch(&attack.ending, &seen) {
            wrong.push(format!("{}: {how}", attack.name()));
        }
        assert!(!reveals(&folders, &shown(seen)), "{}", attack.name());
        next_call_works(&hosts.default);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(state(base), before, "something was written");
}

#[test]
fn does_not_start_attack_on_ungranted_skill() {
    let folders = folders();
    let host = host(&folders);
    for attack in attacks() {
        let mut arguments = attack.arguments();
        arguments["skill_name"] = "secret".into();
        let seen = call(&host, &format!("hostile_{}", attack.tool), arguments);
        let Err(CallError::Stopped {
            stop: Stop::NotGranted { .. },
            ..
        }) = seen
        else {
            panic!("{}: {seen:?}", attack.name());
        };
    }
}

/// Makes a runtime with two threads.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap()
}
