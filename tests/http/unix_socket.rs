//! `skillhost serve --http unix:PATH` in a confined process: the socket's file, and the users who
//! may connect.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use rustix::process::{Signal, geteuid, kill_process};
use rustix::thread::set_thread_res_uid;
use serde_json::{Value, json};

use crate::support::http::{Answer, Client, Request};
use crate::support::process::{self, Process};
use crate::support::program::Program;
use crate::support::watchdog::wait_until;

/// The id of a user who owns no file of these tests.
const OTHER: u32 = 54_321;

/// The program while it serves on a Unix socket.
struct UnixServer {
    program: Program,
    child: Process,
    path: PathBuf,
}

/// Returns a folder with a skill that other users can reach.
fn program(config: &str) -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let config = format!("skills = [\"skills\"]\naudit_file = \"log\"\n{config}");
    program.write("skillhost.toml", config);
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(program.folder.path(), mode).unwrap();
    program
}

impl UnixServer {
    fn start(program: Program, arguments: &[&str]) -> Self {
        let serve = [
            "serve",
            "--config",
            "skillhost.toml",
            "--http",
            "unix:socket",
        ];
        let mut child = Process::start(&mut program.command(&[&serve, arguments].concat()));
        let path = program.folder.path().join("socket");
        assert_eq!(child.first_line(), format!("unix:{}", path.display()));
        let server = Self {
            program,
            child,
            path,
        };
        wait_until("the server is not ready", || {
            server.ask(&Request::get("/readyz")).status == 200
        });
        server
    }

    fn ask(&self, request: &Request) -> Answer {
        Client::over_unix(UnixStream::connect(&self.path).unwrap()).ask(request)
    }

    /// Sends a request as another user. Returns `None` if that user cannot connect.
    fn ask_as(&self, user: u32, request: &Request) -> Option<Answer> {
        let (path, request) = (self.path.clone(), request.clone());
        let caller = thread::spawn(move || {
            let user = rustix::process::Uid::from_raw(user);
            set_thread_res_uid(user, user, user).unwrap();
            let stream = UnixStream::connect(path).ok()?;
            Some(Client::over_unix(stream).ask(&request))
        });
        caller.join().unwrap()
    }

    /// Returns the client and the peer in each record of the audit log.
    fn callers(&self) -> Vec<(Value, Value)> {
        let log = fs::read_to_string(self.program.folder.path().join("log")).unwrap();
        let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let calls = records.filter(|record: &Value| record["tool"].is_string());
        calls
            .map(|record: Value| (record["client"].clone(), record["peer"].clone()))
            .collect()
    }
}

fn read_skill() -> Request {
    Request::call(1, "read_skill", json!({"skill_name": "a"}))
}

fn with_token(token: &str) -> Request {
    read_skill().with("Authorization", &format!("Bearer {token}"))
}

#[test]
fn unix_socket_admits_only_its_user() {
    let server = UnixServer::start(program(""), &[]);
    let mode = server.path.metadata().unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(server.ask(&read_skill()).text(), "# A\n");
    assert_eq!(server.ask(&Request::get("/metrics")).status, 200);
    let peer = format!("unix:uid={},pid={}", geteuid().as_raw(), std::process::id());
    assert_eq!(server.callers(), [(Value::Null, peer.into())]);
    // Values of `Host` that a proxy could pass on from a browser.
    for (host, status) in [
        ("localhost", 200),
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("evil.example", 403),
        ("socket", 403),
        ("", 400),
    ] {
        let request = Request::get("/metrics").with("Host", host);
        assert_eq!(server.ask(&request).status, status, "{host}");
    }
    let from_page = read_skill().with("Origin", "http://evil.example");
    assert_eq!(server.ask(&from_page).status, 403);
    if geteuid().is_root() {
        assert!(server.ask_as(OTHER, &read_skill()).is_none());
    }
}

#[test]
fn refuses_other_user_of_world_writable_socket() {
    let config = "[http]\nsocket_mode = \"0666\"\n";
    let server = UnixServer::start(program(config), &[]);
    let mode = server.path.metadata().unwrap().mode();
    assert_eq!(mode & 0o777, 0o666);
    assert_eq!(server.ask(&read_skill()).status, 200);
    if geteuid().is_root() {
        for (request, status) in [
            (read_skill(), 403),
            (with_token("token-of-nobody-here"), 403),
            (Request::get("/metrics"), 403),
            (Request::get("/healthz"), 200),
        ] {
            let answer = server.ask_as(OTHER, &request).unwrap();
            assert_eq!(answer.status, status, "{request:?}");
        }
        assert_eq!(server.callers().len(), 1);
    }
}

#[test]
fn user_identifies_client_without_token() {
    let digest = skillhost_skills::text::digest::sha256_hex(b"token-of-the-client-b");
    let config = format!(
        "[http]\nsocket_mode = \"0666\"\n\
         [clients.a]\nunix_users = [{OTHER}]\ntools = [\"read_skill\"]\n\
         [clients.b]\ntoken_sha256 = \"{digest}\"\n"
    );
    let server = UnixServer::start(program(&config), &[]);
    // The server's own user is not a client.
    assert_eq!(server.ask(&read_skill()).status, 401);
    assert_eq!(
        server.ask(&with_token("token-of-the-client-b")).text(),
        "# A\n"
    );
    let mut expected = vec![Value::from("b")];
    if geteuid().is_root() {
        assert_eq!(server.ask_as(OTHER, &read_skill()).unwrap().text(), "# A\n");
        assert_eq!(server.ask_as(OTHER + 1, &read_skill()).unwrap().status, 401);
        let other = Request::call(
            1,
            "read_skill_file",
            json!({"skill_name": "a", "path": "SKILL.md"}),
        );
        let unknown = server.ask_as(OTHER, &other).unwrap().json();
        assert!(unknown["error"]["message"].is_string(), "{unknown}");
        // A wrong token is refused, even if the user is a client.
        let wrong = with_token("token-of-nobody-here");
        assert_eq!(server.ask_as(OTHER, &wrong).unwrap().status, 401);
        let right = with_token("token-of-the-client-b");
        assert_eq!(server.ask_as(OTHER, &right).unwrap().text(), "# A\n");
        assert_eq!(
            server
                .ask_as(OTHER, &Request::get("/metrics"))
                .unwrap()
                .status,
            403
        );
        expected.extend(["a".into(), "a".into(), "b".into()]);
    }
    let clients = server.callers().into_iter().map(|(client, _)| client);
    assert_eq!(clients.collect::<Vec<_>>(), expected);
}

#[test]
fn removes_socket_after_every_kind_of_exit() {
    for (arguments, signal, to_all) in [
        (&[][..], Signal::TERM, false),
        // A service manager signals all processes of a service.
        (&[][..], Signal::TERM, true),
        (&[][..], Signal::KILL, false),
        (&["--confine", "off"], Signal::TERM, false),
    ] {
        let server = UnixServer::start(program(""), arguments);
        let children = server.child.children();
        assert!(!to_all || !children.is_empty());
        for process in children.into_iter().filter(|_| to_all) {
            for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
                // On a busy machine, the process may not yet ignore signals.
                wait_until("a signal would end the process", || {
                    Process::ignores(process, signal)
                });
            }
            kill_process(process, signal).unwrap();
        }
        server.child.signal(signal);
        let status = server.child.wait();
        assert!(signal == Signal::KILL || status.success());
        wait_until("the socket still exists", || !server.path.exists());
    }
}

#[test]
fn replaces_only_a_stale_socket() {
    let program = program("");
    drop(UnixListener::bind(program.folder.path().join("socket")).unwrap());
    let server = UnixServer::start(program, &[]);
    let serve = |address: &str| {
        let arguments = ["serve", "--config", "skillhost.toml", "--http", address];
        server.program.run(&arguments)
    };
    server.program.write("file", "kept");
    let long = format!("unix:{}", "x".repeat(120));
    for (address, code, reason) in [
        ("unix:socket", 4, "another process listens there"),
        ("unix:file", 4, "there is a file that is not a socket"),
        ("unix:none/socket", 4, "cannot use the folder"),
        (&*long, 4, "the path is longer than 107 bytes"),
        ("unix:", 2, "or a Unix socket, unix:PATH"),
    ] {
        let run = serve(address);
        assert_eq!(run.code, code, "{address}: {run:?}");
        assert!(run.stderr.contains(reason), "{address}: {run:?}");
    }
    assert_eq!(server.ask(&read_skill()).status, 200);
    let kept = fs::read(server.program.folder.path().join("file")).unwrap();
    assert_eq!(kept, b"kept");
}

#[test]
fn warns_of_users_that_cannot_be_clients() {
    let digest = skillhost_skills::text::digest::sha256_hex(b"token-of-the-client-a");
    let config = format!("[clients.a]\ntoken_sha256 = \"{digest}\"\nunix_users = [{OTHER}]\n");
    let program = program(&config);
    for (address, why) in [
        ("unix:socket", "set `socket_mode` in `[http]`"),
        ("127.0.0.1:0", "users are known only at a Unix socket"),
    ] {
        let serve = ["serve", "--config", "skillhost.toml", "--http", address];
        let mut child = Process::start(&mut program.command(&serve));
        child.first_line();
        child.signal(Signal::TERM);
        let output = child.output();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("`unix_users` of `[clients.a]`"), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
}

#[test]
fn curl_works_over_the_socket() {
    let server = UnixServer::start(program(""), &[]);
    let mut curl = Command::new("curl");
    let has_curl = Command::new("curl").arg("--version").output();
    if !has_curl.is_ok_and(|run| run.status.success()) {
        return;
    }
    curl.args(["-sS", "--unix-socket"]).arg(&server.path);
    curl.args(["-H", "Content-Type: application/json"]);
    curl.args(["-H", "Accept: application/json, text/event-stream"]);
    curl.args(["-H", "MCP-Protocol-Version: 2025-11-25", "-d"]);
    curl.arg(String::from_utf8(read_skill().body).unwrap());
    let run = process::output(curl.arg("http://localhost/mcp"));
    let answer: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "# A\n", "{run:?}");
}
