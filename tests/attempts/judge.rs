//! Starts the program with code that has broken out, again after each attempt that ended it,
//! and judges. It answers cargo as other tests do.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use skillhost_confine::broker::{
    Allowed, AllowedFolder, Broker, LogPath, OutputFolder, SocketPath,
};

use crate::ground::VARIABLE;
use crate::program::CHILD;
use crate::table::TABLE;

/// Errors by which the kernel refuses: the wall's own, and one of Landlock's for renames
/// and links out of a folder.
const REFUSED: [i32; 4] = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EXDEV];

/// Attempts that a machine may refuse to everybody, or has no such thing for: at most this
/// many of the table reach nothing without a wall.
const FEW: usize = 60;

/// What a process may do that reads a stranger's component.
const KEPT_BY_CHILD: [&str; 1] = ["keeps looking at its own limit"];

/// What the broker may do besides opening and starting: to write in the folders that it was
/// told of, and whatever the program needs that it starts, which is confined further.
const KEPT_BY_BROKER: [&str; 48] = [
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

/// What depends on the kernel: before version 6 of Landlock, the broker may signal processes
/// of its user; and `/proc` may be mounted so that it hides processes.
const DIFFERS: [&str; 6] = [
    "signal a process",
    "look whether a process is there",
    "look whether the first process is there",
    "look whether its parent is there",
    "signal a thread of a process",
    "read the first process's command",
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

/// The longest run of the program.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tests, and what each does.
const TESTS: [(&str, fn()); 5] = [
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
        "broker::writes_in_its_folders_alone_and_reaches_no_network",
        broker_is_confined,
    ),
    (
        "release::has_no_code_of_this",
        the_program_has_no_code_of_this,
    ),
];

/// The end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Done,
    Error(i32),
    /// The process has ended in it.
    Killed,
}

impl Ending {
    fn is_refused(self) -> bool {
        match self {
            Self::Done => false,
            Self::Error(code) => REFUSED.contains(&code),
            Self::Killed => true,
        }
    }
}

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
    for (attempt, end) in TABLE.iter().zip(&ends) {
        let is_kept = KEPT_BY_BROKER.contains(&attempt.name);
        let differs = DIFFERS.contains(&attempt.name);
        assert!(
            differs || end.is_refused() != is_kept,
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

/// A folder, a process and sockets to aim at.
struct Field {
    folder: tempfile::TempDir,
    victim: Child,
    port: TcpListener,
    socket: UnixListener,
    datagrams: UnixDatagram,
}

impl Drop for Field {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

impl Field {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for name in [
            "skills/a",
            "secret/empty",
            "secret/empty2",
            "secret/mount",
            "logs",
            "out",
            "run",
        ] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::create_dir_all(at("cache/confined")).unwrap();
        fs::write(at("confined.toml"), CONFIGURATION).unwrap();
        for name in [
            "skills/a/SKILL.md",
            "skills/a/spare",
            "skills/a/first",
            "skills/a/cut",
            "skills/a/mode",
            "secret/file",
            "secret/spare",
            "secret/first",
            "secret/second",
            "secret/third",
            "secret/cut",
            "secret/mode",
            "cache/entry",
            "cache/confined/entry",
            "cache/confined/entry2",
            "logs/audit.jsonl",
            "out/spare",
            "run/spare",
        ] {
            let text = if name.starts_with("logs") {
                ""
            } else {
                "some text"
            };
            fs::write(at(name), text).unwrap();
            set_mode(&at(name), 0o600);
        }
        set_mode(&at("cache"), 0o700);
        set_mode(&at("cache/confined"), 0o700);
        symlink("../../secret/file", at("skills/a/out")).unwrap();
        // A link of a root that follows none.
        symlink("../secret", at("skills/linked")).unwrap();
        symlink("../../secret/file", at("cache/confined/out")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        port.set_nonblocking(true).unwrap();
        let socket = UnixListener::bind(at("secret/socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let datagrams = UnixDatagram::bind(at("secret/datagrams")).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        // It waits for its input, which ends with this.
        let victim = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            folder,
            victim,
            port,
            socket,
            datagrams,
        }
    }

    /// Tries all attempts in this program, started as often as it takes.
    fn try_all(&self, arguments: &[&str]) -> Vec<Ending> {
        self.try_all_by(|from| self.start(arguments, from))
    }

    /// Tries all attempts in processes that begin with the one of a number, and say what
    /// comes of it.
    fn try_all_by(&self, start: impl Fn(usize) -> String) -> Vec<Ending> {
        let mut ends: BTreeMap<usize, Ending> = BTreeMap::new();
        loop {
            let from = ends.len();
            let said = start(from);
            let mut in_flight = None;
            for line in said.lines() {
                let words: Vec<&str> = line.splitn(4, ' ').collect();
                match words[..] {
                    ["attempt", number, "begins", _] => in_flight = number.parse().ok(),
                    ["attempt", number, "ends", end] => {
                        let end = match end.parse() {
                            Ok(code) => Ending::Error(code),
                            Err(_) => Ending::Done,
                        };
                        ends.insert(number.parse().unwrap(), end);
                        in_flight = None;
                    }
                    _ => {}
                }
            }
            if let Some(number) = in_flight {
                ends.insert(number, Ending::Killed);
            }
            assert!(ends.len() > from, "it tried nothing: {said}");
            if ends.len() == TABLE.len() {
                return ends.into_values().collect();
            }
        }
    }

    /// Returns what a program is told that is to try the attempts from this one on.
    fn aim(&self, from: usize) -> String {
        let folder = self.folder.path().to_str().unwrap();
        let port = self.port.local_addr().unwrap().port();
        format!("{folder}\n{}\n{port}\n{from}", self.victim.id())
    }

    /// Starts a broker, asks it for what makes it look into the folder of a skill, and
    /// returns what it said.
    fn ask_broker(&self, from: usize) -> String {
        let own = tempfile::tempdir().unwrap();
        let (said, script) = (own.path().join("said"), own.path().join("script"));
        // A broker gets no variables.
        let text = format!(
            "#!/bin/sh\n{VARIABLE}='{}' exec '{}' \"$@\" 2>'{}'\n",
            self.aim(from),
            std::env::current_exe().unwrap().display(),
            said.display(),
        );
        fs::write(&script, text).unwrap();
        set_mode(&script, 0o700);
        let at = |path: &str| self.folder.path().join(path);
        let skills = AllowedFolder {
            path: at("skills"),
            follows_links: true,
            depth: 2,
        };
        let allowed = Allowed {
            folders: vec![skills],
            output: Some(OutputFolder(at("out/new"))),
            log: Some(LogPath(at("logs/audit.jsonl"))),
            socket: Some(SocketPath(at("run/socket"))),
            ..Allowed::default()
        };
        let broker = Broker::start(&script, &allowed).unwrap();
        let handle = rustix::fs::open(at("logs"), OFlags::PATH, Mode::empty()).unwrap();
        let (answer, answered) = mpsc::channel();
        thread::spawn(move || answer.send(broker.open(handle.as_fd()).is_err()));
        // An error, whether it is still there or not.
        let answered = answered.recv_timeout(PATIENCE);
        assert_eq!(answered, Ok(true), "the broker does not answer");
        fs::read_to_string(said).unwrap()
    }

    /// Runs the program to its end, with one call, and returns its stderr.
    fn start(&self, arguments: &[&str], from: usize) -> String {
        let folder = self.folder.path().to_str().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            // No attempt reaches the group of the tests.
            .process_group(0)
            .env("SKILLHOST_CACHE", format!("{folder}/cache"))
            .env(VARIABLE, self.aim(from))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // The other side may have ended.
        let _ = input.write_all(SESSION.as_bytes());
        let mut errors = child.stderr.take().unwrap();
        let said = thread::spawn(move || {
            let mut said = String::new();
            errors.read_to_string(&mut said).map(|_| said).unwrap()
        });
        // The call is answered before the program ends.
        drop(input);
        let until = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "{arguments:?} does not end");
            thread::sleep(Duration::from_millis(5));
        }
        said.join().unwrap()
    }

    /// Returns all that can be known of the files, but of those that serving may change.
    fn state(&self) -> BTreeMap<String, (u32, u64, i64, i64, String)> {
        let mut state = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.folder.path()).unwrap();
                let name = name.to_str().unwrap().to_owned();
                let found = fs::symlink_metadata(&path).unwrap();
                let is_own = name == "logs/audit.jsonl"
                    || name == "cache"
                    || name == "cache/confined"
                    || name.ends_with(".cwasm")
                    || name.ends_with(".tools");
                if found.is_dir() {
                    folders.push(path.clone());
                }
                if !is_own {
                    let text = match found.is_file() {
                        true => fs::read_to_string(&path).unwrap(),
                        false => String::new(),
                    };
                    let times = (found.mtime(), found.ctime());
                    let known = (found.mode(), found.nlink(), times.0, times.1, text);
                    state.insert(name, known);
                }
            }
        }
        state
    }

    /// Checks that nobody has come to the test's sockets.
    fn reached_nobody(&self) {
        assert!(self.port.accept().is_err());
        assert!(self.socket.accept().is_err());
        assert!(self.datagrams.recv(&mut [0; 8]).is_err());
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The server's configuration. It compiles one tool at each start until that is in the
/// cache: others would be compiled again and again.
const CONFIGURATION: &str = r#"
skills = ["skills"]
audit_file = "logs/audit.jsonl"
disabled_tools = [
    "find_skills", "get_skill", "list_files_in_skill", "list_skills", "read_file_in_skill",
    "read_skill_file", "skill_resources",
]
"#;

/// What a client says that calls a tool once.
const SESSION: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_skill","#,
    r#""arguments":{"skill_name":"a"}}}"#,
    "\n",
);
