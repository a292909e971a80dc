//! `skillhost serve --http`, as a process.

use std::io::Read as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::TOKEN;
use crate::support::http::{Client, Request};
use crate::support::process::Process;
use crate::support::program::{Program, finish};
use crate::support::watchdog::wait_until;

/// The program while it serves over HTTP. Dropping this kills the program.
pub(super) struct ServerProcess {
    pub(super) child: Process,
    pub(super) address: SocketAddr,
}

impl ServerProcess {
    pub(super) fn new(program: &Program, arguments: &[&str], token: Option<&str>) -> Self {
        let mut command =
            program.command(&[&["serve", "--http", "127.0.0.1:0"], arguments].concat());
        if let Some(token) = token {
            command.env("SKILLHOST_HTTP_TOKEN", token);
        }
        Self::started(Process::start(&mut command))
    }

    /// Waits until a server prints its address.
    pub(super) fn started(mut child: Process) -> Self {
        let line = child.first_line();
        let address = line
            .strip_prefix("http://")
            .unwrap()
            .strip_suffix("/mcp")
            .unwrap();
        Self {
            address: address.parse().unwrap(),
            child,
        }
    }

    pub(super) fn signal(&self) {
        self.child.signal(rustix::process::Signal::TERM);
    }

    pub(super) fn wait(&mut self) -> Option<i32> {
        self.child.wait().code()
    }
}

#[test]
fn serves_localhost_at_both_loopback_addresses() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let mut command = program.command(&["serve", "--http", "localhost:0"]);
    let mut child = Process::start(&mut command);
    let line = child.first_line();
    let port = line.strip_prefix("http://localhost:").unwrap();
    let port: u16 = port.strip_suffix("/mcp").unwrap().parse().unwrap();
    let first = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let second = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    let has_second = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let server = ServerProcess {
        child,
        address: first,
    };
    let addresses = || {
        [first, second]
            .into_iter()
            .take(1 + usize::from(has_second))
    };
    for address in addresses() {
        for (host, status) in [("localhost", 200), ("evil.example", 403)] {
            let request = Request::get("/metrics").with("Host", &format!("{host}:{port}"));
            let answer = Client::once(address, &request);
            assert_eq!(answer.status, status, "{address} {host}");
        }
    }
    // A start fails if one of the addresses is in use, because some clients would reach another
    // program there.
    for address in addresses() {
        let refused = || {
            let taken = TcpListener::bind((address.ip(), 0)).unwrap();
            let port = taken.local_addr().unwrap().port();
            let run = program.run(&["serve", "--http", &format!("localhost:{port}")]);
            assert_eq!(run.code, 4, "{}", run.stderr);
            let address = SocketAddr::from((address.ip(), port));
            run.stderr.contains(&format!("cannot serve at `{address}`"))
        };
        // Tries several ports: if another test uses a port at the other address, the error can name
        // that address.
        assert!((0..10).any(|_| refused()), "{address}");
    }
    drop(server);
}

#[test]
fn logs_refused_requests() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let mut server = ServerProcess::new(&program, &["--skills", "skills", "--log", "info"], None);
    for (path, status) in [("/healthz", 200), ("/none", 404)] {
        let answer = Client::once(server.address, &Request::get(path));
        assert_eq!(answer.status, status, "{path}");
    }
    let long_method = Request {
        line: format!("{}Y /none HTTP/1.1", "X".repeat(64)),
        ..Request::get("/none")
    };
    assert_eq!(Client::once(server.address, &long_method).status, 404);
    server.signal();
    assert_eq!(server.wait(), Some(0));
    let mut log = String::new();
    let stderr = server.child.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut log).unwrap();
    assert!(log.contains("refused \"GET\" \"/none\": 404"), "{log}");
    let logged = format!("refused \"{}\" \"/none\": 404", "X".repeat(64));
    assert!(log.contains(&logged), "{log}");
    assert!(!log.contains("/healthz"), "{log}");
}

#[test]
fn serves_with_token_from_any_source_until_signal() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("token", TOKEN);
    let token = program.folder.path().join("token");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    program.write(
        "skillhost.toml",
        "[http]\ntoken_file = \"token\"\nbody = 1000\n",
    );
    let token_in_configuration = ServerProcess::new(
        &program,
        &["--config", "skillhost.toml", "--allow-host", "h.example"],
        None,
    );
    let with_skills = ["--config", "empty.toml", "--skills", "skills"];
    program.write("empty.toml", "");
    let token_in_environment = ServerProcess::new(&program, &with_skills, Some(TOKEN));
    let token_in_option = ServerProcess::new(
        &program,
        &[&with_skills[..], &["--token-file", "token"]].concat(),
        None,
    );
    let read = Request::call(1, "read_skill", json!({"skill_name": "a"}));
    for mut server in [
        token_in_configuration,
        token_in_environment,
        token_in_option,
    ] {
        let address = server.address;
        wait_until("the server is not ready", || {
            Client::once(address, &Request::get("/readyz")).status == 200
        });
        assert_eq!(Client::once(address, &read).status, 401);
        let bearer = format!("Bearer {TOKEN}");
        let read = read.clone().with("Authorization", &bearer);
        assert_eq!(Client::once(address, &read).text(), "# A\n");
        let shown = Client::once(
            address,
            &Request::get("/metrics").with("Authorization", &bearer),
        );
        let counted = r#"skillhost_calls_total{tool="read_skill",outcome="output",reason=""} 1"#;
        assert!(shown.body.contains(counted), "{}", shown.body);
        server.signal();
        assert_eq!(server.wait(), Some(0));
    }
    let server = ServerProcess::new(
        &program,
        &["--config", "skillhost.toml", "--allow-host", "h.example"],
        None,
    );
    let metrics = Request::get("/metrics").with("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(
        Client::once(server.address, &metrics.with("Host", "h.example")).status,
        200
    );
    let large = read
        .with("Content-Length", "1001")
        .with("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(Client::once(server.address, &large).status, 413);
}

#[test]
fn refuses_unsafe_or_invalid_options_of_serve() {
    let program = Program::new();
    program.write("public-token", TOKEN);
    let serve = |address: &str, arguments: &[&str], token: Option<&str>| {
        let mut command = program.command(&[&["serve", "--http", address], arguments].concat());
        if let Some(token) = token {
            command.env("SKILLHOST_HTTP_TOKEN", token);
        }
        finish(command, "")
    };
    let cases = [
        (serve("0.0.0.0:0", &[], None), 4, "SKILLHOST_HTTP_TOKEN"),
        (serve("0.0.0.0:0", &[], Some(TOKEN)), 4, "allowed_hosts"),
        (
            serve("127.0.0.1:0", &[], Some("")),
            4,
            "SKILLHOST_HTTP_TOKEN",
        ),
        (
            serve("127.0.0.1:0", &["--token-file", "public-token"], None),
            4,
            "0600",
        ),
        (
            serve(
                "127.0.0.1:0",
                &["--token-file", "public-token"],
                Some(TOKEN),
            ),
            4,
            "remove one of the two",
        ),
        (
            serve("127.0.0.1:0", &["--token-file", "none"], None),
            4,
            "`none`",
        ),
        (
            serve("127.0.0.1:0", &["--allow-host", "a b"], None),
            4,
            "`a b`",
        ),
        (serve("somewhere", &[], None), 2, "--http"),
        (
            program.run(&["serve", "--token-file", "public-token"]),
            2,
            "--http",
        ),
    ];
    for (run, code, message) in cases {
        assert_eq!((run.code, &*run.stdout), (code, ""), "{}", run.stderr);
        assert!(
            run.stderr.contains(message) && !run.stderr.contains(TOKEN),
            "{}",
            run.stderr
        );
    }
}
