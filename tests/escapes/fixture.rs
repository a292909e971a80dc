//! The fixture of an escape test: files, a process and sockets as targets, and the processes that
//! run escaped code.

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
use skillhost_confine::broker::{AllowedPath, BrokerClient, BrokerPolicy, EncodedPath};

use crate::servers::Servers;
use crate::table::{EGRESS_TABLE, Escape, SECRET, TABLE};
use crate::targets::ESCAPES_VARIABLE;

/// The errors of a refused system call. `EXDEV` is Landlock's error for renames and links out of a
/// folder.
const REFUSED: [i32; 4] = [libc::EPERM, libc::EACCES, libc::ENOSYS, libc::EXDEV];

/// The maximum time that the program runs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The outcome of a row of the table of escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Error(i32),
    /// The row killed its process.
    Killed,
}

impl Outcome {
    pub(crate) fn is_refused(self) -> bool {
        match self {
            Self::Done => false,
            Self::Error(code) => REFUSED.contains(&code),
            Self::Killed => true,
        }
    }
}

/// Targets for escaped code.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    victim: Child,
    port: TcpListener,
    socket: UnixListener,
    datagrams: UnixDatagram,
    /// The servers that the egress process may reach.
    servers: Option<Servers>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
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
        // A symlink in a root whose configuration does not follow symlinks.
        symlink("../secret", at("skills/linked")).unwrap();
        symlink("../../secret/file", at("cache/confined/out")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        port.set_nonblocking(true).unwrap();
        let socket = UnixListener::bind(at("secret/socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let datagrams = UnixDatagram::bind(at("secret/datagrams")).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        // The victim waits for its input, which ends with this process.
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
            servers: None,
        }
    }

    /// Creates targets, and starts servers to which the configuration grants requests.
    pub(crate) fn with_egress() -> Self {
        let mut fixture = Self::new();
        let servers = Servers::start();
        let at = |path: &str| fixture.folder.path().join(path);
        fs::write(
            at("confined.toml"),
            CONFIGURATION.to_owned() + &servers.grant(),
        )
        .unwrap();
        fs::write(at("ca.pem"), &servers.certificate).unwrap();
        fs::write(at("token"), SECRET).unwrap();
        set_mode(&at("token"), 0o600);
        fixture.servers = Some(servers);
        fixture
    }

    /// Returns the rows that escaped code tries.
    pub(crate) fn table(&self) -> &'static [Escape] {
        match self.servers {
            None => &TABLE,
            Some(_) => &EGRESS_TABLE,
        }
    }

    /// Returns the requests that the servers got.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.servers
            .as_ref()
            .map(Servers::requests)
            .unwrap_or_default()
    }

    /// Tries all rows in this program with these arguments.
    pub(crate) fn run_table(&self, arguments: &[&str]) -> Vec<Outcome> {
        self.run_table_with(|first_row| self.run_program(arguments, first_row))
    }

    /// Tries all rows in as many processes as needed. `run` starts a process at a row and returns
    /// its output.
    pub(crate) fn run_table_with(&self, run: impl Fn(usize) -> String) -> Vec<Outcome> {
        let mut outcomes: BTreeMap<usize, Outcome> = BTreeMap::new();
        loop {
            let first_row = outcomes.len();
            let output = run(first_row);
            let mut in_flight = None;
            for line in output.lines() {
                let words: Vec<&str> = line.splitn(4, ' ').collect();
                match words[..] {
                    ["escape", number, "begins", _] => in_flight = number.parse().ok(),
                    ["escape", number, "ends", result] => {
                        let outcome = match result.parse() {
                            Ok(code) => Outcome::Error(code),
                            Err(_) => Outcome::Done,
                        };
                        outcomes.insert(number.parse().unwrap(), outcome);
                        in_flight = None;
                    }
                    _ => {}
                }
            }
            if let Some(number) = in_flight {
                outcomes.insert(number, Outcome::Killed);
            }
            assert!(outcomes.len() > first_row, "no row ran: {output}");
            if outcomes.len() == self.table().len() {
                return outcomes.into_values().collect();
            }
        }
    }

    /// Returns the value of the variable that turns on escaped code, starting at this row.
    fn variable(&self, first_row: usize) -> String {
        let folder = self.folder.path().to_str().unwrap();
        let port = self.port.local_addr().unwrap().port();
        let servers = self
            .servers
            .as_ref()
            .map(Servers::ports)
            .unwrap_or_default();
        format!(
            "{folder}\n{}\n{port}\n{first_row}{servers}",
            self.victim.id()
        )
    }

    /// Starts a broker, sends a request, and returns the broker's output.
    pub(crate) fn run_in_broker(&self, first_row: usize) -> String {
        let folder = tempfile::tempdir().unwrap();
        let (output, script) = (folder.path().join("output"), folder.path().join("script"));
        // The script sets the variable, because a broker gets no environment.
        let text = format!(
            "#!/bin/sh\n{ESCAPES_VARIABLE}='{}' exec '{}' \"$@\" 2>'{}'\n",
            self.variable(first_row),
            std::env::current_exe().unwrap().display(),
            output.display(),
        );
        fs::write(&script, text).unwrap();
        set_mode(&script, 0o700);
        let at = |path: &str| self.folder.path().join(path);
        let skills = AllowedPath {
            path: at("skills"),
            follows_links: true,
            link_owners: None,
            within: "/".into(),
        };
        let policy = BrokerPolicy {
            paths: vec![skills],
            output: Some(EncodedPath(at("out/new"))),
            log: Some(EncodedPath(at("logs/audit.jsonl"))),
            socket: Some(EncodedPath(at("run/socket"))),
            ..BrokerPolicy::default()
        };
        let broker = BrokerClient::start(&script, &policy).unwrap();
        let handle = rustix::fs::open(at("logs"), OFlags::PATH, Mode::empty()).unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(broker.open(handle.as_fd()).is_err()));
        // The request fails, whether the broker refuses it or was killed.
        let has_failed = receiver.recv_timeout(TIMEOUT);
        assert_eq!(has_failed, Ok(true), "the broker does not answer");
        fs::read_to_string(output).unwrap()
    }

    /// Runs the program with one call until it ends, and returns its stderr.
    fn run_program(&self, arguments: &[&str], first_row: usize) -> String {
        let folder = self.folder.path().to_str().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            // Signals to the process group must not reach the tests.
            .process_group(0)
            .env("SKILLHOST_CACHE", format!("{folder}/cache"))
            .env(ESCAPES_VARIABLE, self.variable(first_row))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // The program may have ended already.
        let _ = stdin.write_all(SESSION.as_bytes());
        let mut stderr = child.stderr.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut output = String::new();
            stderr.read_to_string(&mut output).unwrap();
            sender.send(output)
        });
        // The program answers the call before it ends.
        drop(stdin);
        let deadline = Instant::now() + TIMEOUT;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "{arguments:?} does not end");
            thread::sleep(Duration::from_millis(5));
        }
        let output = receiver.recv_timeout(TIMEOUT);
        output.expect("a helper process outlives the program")
    }

    /// Returns the contents and attributes of all files, except those that serving may change.
    pub(crate) fn state(&self) -> BTreeMap<String, (u32, u64, i64, i64, String)> {
        let mut state = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.folder.path()).unwrap();
                let name = name.to_str().unwrap().to_owned();
                let metadata = fs::symlink_metadata(&path).unwrap();
                let may_change = name == "logs/audit.jsonl"
                    || name == "cache"
                    || name == "cache/confined"
                    || name.ends_with(".cwasm")
                    || name.ends_with(".tools");
                if metadata.is_dir() {
                    folders.push(path.clone());
                }
                if !may_change {
                    let text = if metadata.is_file() {
                        fs::read_to_string(&path).unwrap()
                    } else {
                        String::new()
                    };
                    let file_state = (
                        metadata.mode(),
                        metadata.nlink(),
                        metadata.mtime(),
                        metadata.ctime(),
                        text,
                    );
                    state.insert(name, file_state);
                }
            }
        }
        state
    }

    /// Checks that the test's sockets received no connection and no datagram.
    pub(crate) fn assert_nothing_connected(&self) {
        assert!(self.port.accept().is_err());
        assert!(self.socket.accept().is_err());
        assert!(self.datagrams.recv(&mut [0; 8]).is_err());
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The server's configuration, with only one tool: a process that is killed early caches no
/// compiled code, so each start would compile all tools again.
const CONFIGURATION: &str = r#"
skills = ["skills"]
audit_file = "logs/audit.jsonl"
disabled_tools = [
    "find_skills", "get_skill", "list_files_in_skill", "list_skills", "read_file_in_skill",
    "read_skill_file", "skill_resources",
]
"#;

/// The messages of a client that calls one tool.
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
