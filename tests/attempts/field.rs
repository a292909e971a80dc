//! A folder, a process and sockets that the attempts aim at, and the programs that try them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use skillhost_confine::broker::{
    Allowed, AllowedFolder, Broker, LogPath, OutputFolder, SocketPath,
};

use crate::ground::VARIABLE;
use crate::table::TABLE;

/// Errors by which the kernel refuses: the wall's own, and one of Landlock's for renames
/// and links out of a folder.
const REFUSED: [i32; 4] = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EXDEV];

/// The longest run of the program.
const PATIENCE: Duration = Duration::from_secs(60);

/// The end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Error(i32),
    /// The process has ended in it.
    Killed,
}

impl Ending {
    pub(crate) fn is_refused(self) -> bool {
        match self {
            Self::Done => false,
            Self::Error(code) => REFUSED.contains(&code),
            Self::Killed => true,
        }
    }
}

/// A folder, a process and sockets to aim at.
pub(crate) struct Field {
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
    pub(crate) fn make() -> Self {
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
    pub(crate) fn try_all(&self, arguments: &[&str]) -> Vec<Ending> {
        self.try_all_by(|from| self.start(arguments, from))
    }

    /// Tries all attempts in processes that begin with the one of a number, and say what
    /// comes of it.
    pub(crate) fn try_all_by(&self, start: impl Fn(usize) -> String) -> Vec<Ending> {
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
    pub(crate) fn ask_broker(&self, from: usize) -> String {
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
            within: "/".into(),
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
    pub(crate) fn state(&self) -> BTreeMap<String, (u32, u64, i64, i64, String)> {
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
    pub(crate) fn reached_nobody(&self) {
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
