//! Guests that attack their host. Each ends as the table says, nothing shows
//! of what lies outside, and the next call works. A tool of the hostile guest
//! that the table does not name fails the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use skillhost::{CallError, FailureKind, Grant, Host, Limits, Output, Stop};

use crate::support::folders::{CANARY, Folders};
use crate::support::{again, block_on, builder, call, guests, is_again, model_text};

/// What an attack ends in.
#[derive(Debug)]
enum Ends {
    /// The host stopped it at its deadline.
    Time,
    /// The host stopped it at a limit.
    Memory,
    Handles,
    Output,
    Stack,
    /// It broke off; the operator reads a reason with these words.
    Trap(&'static str),
    /// The host said no, with this word for it.
    Refused(&'static str),
    /// Its own failure, which starts so and is of this kind.
    Fails(FailureKind, &'static str),
    /// It answered so, and that is no harm.
    Answers(&'static str),
}

use Ends::{Answers, Fails, Handles, Memory, Output as TooLarge, Refused, Stack, Time, Trap};

/// One attack: the tool without its prefix, its arguments, and its end.
struct Attack {
    tool: &'static str,
    path: Option<&'static str>,
    number: Option<u64>,
    ends: Ends,
}

fn attack(tool: &'static str, ends: Ends) -> Attack {
    Attack {
        tool,
        path: None,
        number: None,
        ends,
    }
}

impl Attack {
    fn on(mut self, path: &'static str) -> Self {
        self.path = Some(path);
        self
    }

    fn with(mut self, number: u64) -> Self {
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

/// Every attack, with its end. Limits are the defaults, but that what goes on
/// for ever has [`SHORT`] time.
fn attacks() -> Vec<Attack> {
    vec![
        // What would write.
        attack("create", Refused("read-only")).on("new.txt"),
        attack("create", Refused("read-only")).on("../new.txt"),
        attack("create", Refused("read-only")).on("out/new.txt"),
        attack("create_exclusively", Refused("read-only")).on("new.txt"),
        attack("truncate", Refused("read-only")),
        attack("truncate", Refused("read-only")).on("out/canary.txt"),
        attack("open_for_writing", Refused("read-only")),
        attack("open_for_changing", Refused("read-only")).on("docs"),
        attack("write", Refused("read-only")),
        attack("write_through_stream", Refused("read-only")),
        attack("append_through_stream", Refused("read-only")),
        attack("set_size", Refused("read-only")),
        attack("set_times", Refused("read-only")),
        attack("set_times_at", Refused("read-only")),
        attack("set_times_at", Refused("read-only")).on("out/canary.txt"),
        attack("rename", Refused("read-only")),
        attack("link", Refused("read-only")),
        attack("link", Refused("read-only")).on("out/canary.txt"),
        attack("symlink", Refused("read-only")),
        attack("unlink", Refused("read-only")),
        attack("unlink", Refused("read-only")).on("out/canary.txt"),
        attack("make_folder", Refused("read-only")),
        attack("remove_folder", Refused("read-only")),
        attack("sync", Refused("read-only")),
        attack("write_by_std", Refused("ReadOnlyFilesystem")).on("new.txt"),
        // Handles. That no number helps has a test of its own.
        attack("guess_file", Trap("unknown handle index")).with(77),
        attack("guess_file", Trap("unknown handle index")).with(u64::MAX),
        attack("guess_listing", Trap("unknown handle index")).with(77),
        attack("guess_stream", Trap("unknown handle index")).with(77),
        attack("guess_drop", Trap("unknown handle index")).with(77),
        attack("use_after_drop", Trap("unknown handle index")),
        // Time, stack and memory.
        attack("compute", Time),
        attack("sleep", Time),
        attack("poll_for_ever", Time),
        attack("poll_one_often", Time).with(100),
        attack("poll_one_often", Handles).with(100_000),
        attack("poll_nothing", Trap("empty poll list")),
        attack("wait_for_the_end_of_time", Time),
        attack("call_host_for_ever", Time),
        attack("recur", Trap("out of bounds memory access")),
        attack("recur_in_registers", Stack),
        attack("take_memory", Memory),
        attack("take_memory_and_answer", Answers("there were ")),
        // Answers.
        attack("large", TooLarge).with(17 * MIB),
        attack("large", TooLarge).with(40 * MIB),
        attack("large", Memory).with(70 * MIB),
        attack("large", Trap("unreachable")).with(u64::MAX),
        attack("large_details", TooLarge).with(17 * MIB),
        attack("large_failure", TooLarge).with(17 * MIB),
        attack("longer_than_memory", Trap("out of bounds")),
        attack("twice", TooLarge).with(40 * MIB),
        attack("no_text", Trap("utf-8")),
        attack("no_text_details", Trap("utf-8")),
        attack("no_json", Answers("done")),
        attack("brackets", Answers("done")).with(100_000),
        attack("repeated_key", Answers("done")),
        attack("escapes", Answers("\u{1b}]0;title\u{7}")).on("\u{1b}]0;title\u{7}\u{1b}[2J"),
        // Floods.
        attack("files", Handles),
        attack("hold_files", Time).with(200),
        attack("folders", Handles),
        attack("listings", Handles).on("empty"),
        attack("listings", Handles).on("full"),
        attack("entries", Refused("overflow")).on("full"),
        attack("streams", Handles),
        attack("timers", Handles),
        attack("preopens", Handles),
        attack("print", Answers("printed")).with(100),
        attack("print_escapes", Answers("printed")).with(1000),
        attack("print_unasked", Answers("printed")).with(40 * MIB),
        attack("print_zeroes", Trap("cannot write more zeroes")).with(u64::MAX),
        attack("random", Trap("exceeds limit")).with(4 << 30),
        attack("random", Trap("exceeds limit")).with(u64::MAX),
        attack("insecure_random", Trap("exceeds limit")).with(4 << 30),
        attack("random_for_ever", Time).with(MIB),
        attack("random", Trap("exceeds limit")).with(50 * MIB),
        attack("read_all", Answers("4 bytes, end: true")),
        attack("read_far", Refused("invalid")),
        attack("stream_far", Fails(FailureKind::Refused, "")),
        attack("skip_far", Answers("skipped 4, then Err(\"closed\")")),
        // Paths that are work.
        attack("long", Refused("name-too-long")).with(10 * MIB),
        attack("many_steps", Refused("name-too-long")).with(5 * MIB),
        attack("down_and_up", Refused("name-too-long")).with(MIB),
        attack("stat_down_and_up", Refused("name-too-long")).with(MIB),
        attack("readlink_down_and_up", Refused("name-too-long")).with(MIB),
        // What lies outside.
        attack("environment", Answers("([], [], None)")),
        attack("standard_input", Refused("closed")),
        attack("tcp", Refused("access-denied")),
        attack("udp", Refused("access-denied")),
        attack("resolve", Refused("access-denied")).on("localhost"),
        attack("connect_by_std", Fails(FailureKind::Refused, "")).on("127.0.0.1:80"),
        attack("connect_by_std", Fails(FailureKind::Refused, "")).on("localhost:80"),
        attack("start_process", Refused("Unsupported")),
        attack("start_thread", Refused("Unsupported")),
        attack("skills", Answers("a")),
        attack("exit_with_success", Trap("")),
        attack("exit_with_failure", Trap("")),
        attack("change", Answers("done")),
        attack("descend", Answers("went down 1")).on("docs"),
        attack("break_off", Trap("unreachable")).on("\u{1b}[2J{}"),
    ]
}

/// The time of an attack that would go on for ever.
const SHORT: Duration = Duration::from_millis(50);

/// Entries of one listing. One of the folders has more.
const ENTRIES: usize = 50;

/// A skill to attack from, one that is not granted, and a canary outside.
fn folders() -> Folders {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    folders.write("a/docs/inside.txt", "inside");
    for number in 0..=ENTRIES {
        folders.write(&format!("a/full/{number}.txt"), "");
    }
    fs::create_dir(folders.root.join("a/empty")).unwrap();
    // Two listings of this are too many.
    for number in 0..ENTRIES / 2 + 1 {
        folders.write(&format!("a/some/{number}.txt"), "");
    }
    folders.write("secret/SKILL.md", CANARY);
    std::os::unix::fs::symlink(&folders.outside, folders.root.join("a/out")).unwrap();
    folders
}

/// A host for the hostile guest, whose tools may read the skill `a`.
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

/// Such a host, and one that gives calls [`SHORT`] time.
struct Hosts {
    patient: Host,
    hurried: Host,
}

impl Hosts {
    fn new(folders: &Folders) -> Self {
        Self {
            patient: host(folders),
            hurried: host_with(folders, SHORT),
        }
    }

    /// Runs an attack; one that goes on for ever has little time.
    fn run(&self, attack: &Attack) -> Result<Output, CallError> {
        match attack.ends {
            Time => attack.run(&self.hurried),
            _ => attack.run(&self.patient),
        }
    }
}

/// What is not as the table says, if something is not.
fn unlike(ends: &Ends, seen: &Result<Output, CallError>) -> Option<String> {
    let stop = match seen {
        Err(CallError::Stopped { stop, .. }) => Some(stop),
        _ => None,
    };
    let as_expected = match (ends, seen) {
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
        format!("it should end in {ends:?}, and ended in … {seen}")
    })
}

/// Whether a text tells something that lies outside the skill.
fn tells(folders: &Folders, text: &str) -> bool {
    let base = folders.root.parent().unwrap().to_str().unwrap();
    text.contains(CANARY) || text.contains(base) || text.contains("root:x:0")
}

/// Everything that a caller sees of an answer.
fn shown(seen: Result<Output, CallError>) -> String {
    let record = match &seen {
        Ok(output) => output.record(),
        Err(error) => error.record(),
    };
    let told = format!("{record}{seen:?}");
    told + &skillhost::message::model_text(seen)
}

fn the_next_call_works(host: &Host) {
    let arguments = json!({"skill_name": "a", "file_path": "SKILL.md"});
    assert_eq!(model_text(host, "read_file_in_skill", arguments), "# A\n");
}

/// Everything below a folder: what it is, how large, and when it was changed.
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
fn every_hostile_tool_has_a_named_end() {
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
fn every_attack_ends_as_named_and_the_next_call_works() {
    let folders = folders();
    let hosts = Hosts::new(&folders);
    let base = folders.root.parent().unwrap();
    let before = state(base);
    let mut wrong = Vec::new();
    for attack in attacks() {
        let seen = hosts.run(&attack);
        if let Some(how) = unlike(&attack.ends, &seen) {
            wrong.push(format!("{}: {how}", attack.name()));
        }
        assert!(!tells(&folders, &shown(seen)), "{}", attack.name());
        the_next_call_works(&hosts.patient);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(state(base), before, "something was written");
}

#[test]
fn an_attack_on_a_skill_that_is_not_granted_does_not_start() {
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

#[test]
fn no_guessed_handle_reaches_a_file_of_another_call() {
    let folders = folders();
    folders.write("b/canary.txt", CANARY);
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(300);
    let grant = Grant::new().skills(["b"]).unwrap().limits(limits);
    let host = host(&folders);
    // The same component, with many files of another skill open all the while.
    let other = crate::support::build(
        builder()
            .skills(&folders.root)
            .tools(guests())
            .grant("hostile.wasm", grant),
    );
    block_on(async {
        let held = json!({"skill_name": "b", "path": "canary.txt", "number": 200});
        let hold = other.call("hostile_hold_files", held);
        let guess = async {
            for (tool, most) in [
                ("hostile_guess_file", 10_000),
                ("hostile_guess_listing", 300),
                ("hostile_guess_stream", 300),
                ("hostile_guess_drop", 300),
            ] {
                for number in (0..most).chain([i32::MAX as u64, u64::from(u32::MAX)]) {
                    let arguments = json!({"skill_name": "a", "number": number});
                    match host.call(tool, arguments).await {
                        Err(CallError::Stopped {
                            stop: Stop::Trap(_),
                            ..
                        }) => {}
                        // The call's own preopen, by its number.
                        Err(CallError::Failed(failure)) => {
                            assert_eq!(failure.message, "is-directory", "{tool} {number}");
                        }
                        Ok(output) if tool == "hostile_guess_drop" => {
                            assert_eq!(output.text(), "done");
                        }
                        Ok(output) => {
                            assert_eq!(
                                output.text(),
                                "SKILL.md\ndocs\nempty\nfull\nout\nsome",
                                "{tool} {number}"
                            )
                        }
                        Err(other) => panic!("{tool} {number}: {other:?}"),
                    }
                }
            }
        };
        tokio::select! {
            ended = hold => panic!("it should hold its files still: {ended:?}"),
            () = guess => {}
        }
    });
}

/// What a process holds.
#[derive(Debug)]
struct Held {
    threads: usize,
    descriptors: usize,
    memory: u64,
}

impl Held {
    fn now() -> Self {
        let count = |folder: &str| fs::read_dir(folder).unwrap().count();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .unwrap();
        Self {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
            memory: memory.trim().parse::<u64>().unwrap() << 10,
        }
    }
}

#[test]
fn a_thousand_attacks_leave_threads_descriptors_and_memory_as_before() {
    if !is_again() {
        // In a process of its own, where no other test comes and goes.
        again(
            "hostile::a_thousand_attacks_leave_threads_descriptors_and_memory_as_before",
            "alone",
        );
        return;
    }
    let folders = folders();
    let hosts = Hosts::new(&folders);
    let attacks = attacks();
    let run = |attack: &Attack| {
        let seen = hosts.run(attack);
        assert!(!tells(&folders, &shown(seen)), "{}", attack.name());
    };
    attacks.iter().for_each(run);
    the_next_call_works(&hosts.patient);
    let before = Held::now();
    // What takes its whole time or all memory is run a few times only.
    let mut left = 1000;
    for round in 0.. {
        for attack in &attacks {
            let costly = matches!(attack.ends, Time | Memory | TooLarge);
            let often = round < 3 || !(costly || attack.tool == "take_memory_and_answer");
            if often && left > 0 {
                left -= 1;
                run(attack);
            }
        }
        if left == 0 {
            break;
        }
    }
    the_next_call_works(&hosts.patient);
    let after = Held::now();
    assert_eq!(after.threads, before.threads, "threads");
    assert_eq!(after.descriptors, before.descriptors, "descriptors");
    let most = before.memory + (before.memory / 10).max(16 * MIB);
    assert!(after.memory <= most, "{before:?}, then {after:?}");
}

#[test]
fn what_goes_on_for_ever_is_stopped_at_its_deadline() {
    if !is_again() {
        again(
            "hostile::what_goes_on_for_ever_is_stopped_at_its_deadline",
            "alone",
        );
        return;
    }
    let folders = folders();
    let hosts = Hosts::new(&folders);
    for attack in attacks() {
        if !matches!(attack.ends, Time) {
            continue;
        }
        // The machine may be busy with something else. That it is each time is
        // not likely; a host that stops late is late each time.
        let late = (0..5).map(|_| {
            let start = Instant::now();
            let _ = hosts.run(&attack);
            start.elapsed().saturating_sub(SHORT)
        });
        let mut late = late.inspect(|late| {
            assert!(*late < Duration::from_secs(2), "{}", attack.name());
        });
        assert!(
            late.any(|late| late < Duration::from_millis(100)),
            "{} was late each time",
            attack.name()
        );
    }
}

/// A runtime with as many threads as the machine has processors, or two.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap()
}

#[test]
fn two_loops_on_two_threads_end_at_their_deadline_while_eight_neighbours_are_answered() {
    let folders = folders();
    const LONG: Duration = Duration::from_millis(400);
    let mut limits = Limits::default();
    limits.time = LONG;
    let grant = Grant::new().skills(["a"]).unwrap().limits(limits);
    let host = crate::support::build(
        builder()
            .skills(&folders.root)
            .tools(guests())
            .grant("hostile.wasm", grant),
    );
    let runtime = runtime();
    let neighbour = async |host: Host, end: Instant| {
        let mut answered = 0;
        while Instant::now() < end {
            let arguments = json!({"skill_name": "a", "file_path": "SKILL.md"});
            let answer = host.call("read_file_in_skill", arguments).await;
            assert_eq!(answer.unwrap().text(), "# A\n");
            answered += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        answered
    };
    let looping = async |host: Host| {
        let start = Instant::now();
        let arguments = json!({"skill_name": "a"});
        let ended = host.call("hostile_compute", arguments).await;
        let late = start.elapsed().saturating_sub(LONG);
        let Err(CallError::Stopped {
            stop: Stop::Time(_),
            ..
        }) = ended
        else {
            panic!("{ended:?}");
        };
        late
    };
    // The machine may be busy with something else, but not each time.
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let loops = [0; 2].map(|_| runtime.spawn(looping(host.clone())));
        let end = Instant::now() + LONG - Duration::from_millis(50);
        let neighbours = [0; 8].map(|_| runtime.spawn(neighbour(host.clone(), end)));
        let answered = neighbours.map(|task| runtime.block_on(task).unwrap());
        let late = loops.map(|task| runtime.block_on(task).unwrap());
        let good = answered.iter().all(|answers| *answers >= 3)
            && late.iter().all(|late| *late < Duration::from_millis(100));
        if good {
            return;
        }
        rounds.push((answered, late));
    }
    panic!("loops ended late, or neighbours were not answered, each time: {rounds:?}");
}

#[test]
fn a_definition_that_changes_each_time_it_is_asked_for_is_asked_for_once() {
    let folders = folders();
    let definition = |host: &Host| {
        let all = host.definitions().into_iter();
        let description = all.filter(|tool| tool.name == "hostile_change");
        description.map(|tool| tool.description).collect::<String>()
    };
    let cache = tempfile::tempdir().unwrap();
    let host = |cache: &Path| {
        let grant = Grant::new().skills(["a"]).unwrap();
        let host = Host::builder().skills(&folders.root).tools(guests());
        crate::support::build(host.cache(cache).grant("hostile.wasm", grant))
    };
    let first = host(cache.path());
    let promised = definition(&first);
    assert!(promised.starts_with("This time it is "), "{promised}");
    assert!(call(&first, "hostile_change", json!({"skill_name": "a"})).is_ok());
    assert_eq!(definition(&first), promised);
    // What it said once is kept with its code.
    assert_eq!(definition(&host(cache.path())), promised);
    let other = tempfile::tempdir().unwrap();
    assert_ne!(
        definition(&host(other.path())),
        promised,
        "it never changes"
    );
}

#[test]
fn two_hundred_callers_at_once_get_each_its_own_answer() {
    let folders = folders();
    for number in 0..200 {
        folders.write(&format!("a/{number}.txt"), format!("answer {number}"));
    }
    let host = host(&folders);
    let runtime = runtime();
    let start = Arc::new(tokio::sync::Barrier::new(200));
    let callers: Vec<_> = (0..200)
        .map(|number| {
            let (host, start) = (host.clone(), Arc::clone(&start));
            runtime.spawn(async move {
                start.wait().await;
                let path = format!("{number}.txt");
                // Every fourth is an attacker.
                if number % 4 == 0 {
                    let arguments = json!({"skill_name": "a", "path": path});
                    host.call("hostile_break_off", arguments).await
                } else {
                    let arguments = json!({"skill_name": "a", "file_path": path});
                    host.call("read_file_in_skill", arguments).await
                }
            })
        })
        .collect();
    for (number, caller) in callers.into_iter().enumerate() {
        // A task has one result: an answer that came twice or never is none.
        let seen = runtime.block_on(caller).unwrap();
        match seen {
            Ok(output) => assert_eq!(output.text(), format!("answer {number}")),
            Err(CallError::Stopped {
                stop: Stop::Trap(_),
                ..
            }) => assert_eq!(number % 4, 0),
            Err(other) => panic!("{number}: {other:?}"),
        }
    }
    the_next_call_works(&host);
}

#[test]
fn a_caller_that_gives_up_stops_the_guest() {
    if !is_again() {
        again("hostile::a_caller_that_gives_up_stops_the_guest", "alone");
        return;
    }
    let folders = folders();
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(600);
    let host = crate::support::build(builder().skills(&folders.root).tools(guests()).grant(
        "hostile.wasm",
        Grant::new().skills(["a"]).unwrap().limits(limits),
    ));
    the_next_call_works(&host);
    let give_up = || {
        let arguments = json!({"skill_name": "a", "number": 100});
        block_on(async {
            let called = host.call("hostile_hold_files", arguments);
            let waited = tokio::time::timeout(Duration::from_millis(200), called).await;
            assert!(waited.is_err(), "{waited:?}");
        });
    };
    // The host holds the code of what has been called.
    give_up();
    let before = Held::now();
    give_up();
    let after = Held::now();
    assert_eq!(after.descriptors, before.descriptors);
    assert_eq!(after.threads, before.threads);
    the_next_call_works(&host);
}
