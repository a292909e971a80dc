//! HTTP requests that guests of a server over HTTP send, and the processes that have a secret
//! meanwhile.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use skillhost::COMPILE_ARGUMENT;

use super::program::ServerProcess;
use crate::network::{grant, program};
use crate::support::certificates::{Authority, write_owner_only};
use crate::support::http::{Client, Request};
use crate::support::memory;
use crate::support::process::{Process, descendants};
use crate::support::program::{Program, UnprivilegedCopy};
use crate::support::watchdog::wait_until;
use crate::support::web_server::{WebServer, answer};

/// A secret that only the egress processes may have.
const SECRET: &str = "canary-of-the-egress-process-91c7";

/// A text of the response, which is in the memory of every process that has the response.
const PUBLIC: &str = "what-the-server-tells-everybody-4e02";

/// A text of the component, which is in the memory of every process that reads the component.
const COMPONENT: &str = "each from its last letter to its first";

fn call(id: u64, requests: &Value, scan: &Value) -> Request {
    let arguments = json!({"requests": requests.to_string(), "scan": scan.to_string()});
    Request::call(id, "send_requests", arguments)
}

fn wait_until_ready(server: &ServerProcess) {
    wait_until("the server is not ready", || {
        Client::once(server.address, &Request::get("/readyz")).status == 200
    });
}

/// Returns a program with a grant that sends a secret to a TLS server. `rules` is appended to the
/// rule for this server.
fn with_secret(authority: &Authority, host: &str, rules: &str) -> Program {
    let rules = format!("https://{host}{rules}");
    let more = format!(
        "secrets.TOKEN = {{ file = \"token\", header = \"authorization\", hosts = [\"{host}\"] }}\n\
         [network]\nca_file = \"ca.pem\""
    );
    let program = program(&grant(&rules, &more));
    program.write("ca.pem", &authority.certificate);
    write_owner_only(&program, "token", SECRET);
    program
}

#[test]
fn server_over_http_sends_only_granted_requests() {
    let web = WebServer::start(|_| answer("200 OK", "hello"));
    let host = &web.authority;
    let program = program(&grant(&format!("GET http://{host}/v1/*"), ""));
    let mut server = ServerProcess::new(&program, &["--config", "c.toml"], None);
    wait_until_ready(&server);
    let denied = "ErrorCode::HttpRequestDenied";
    for (id, (request, expected)) in (1..).zip([
        (json!({"host": host, "path": "/v1/a"}), json!(200)),
        (json!({"host": host, "path": "/v2/a"}), json!(denied)),
        (
            json!({"host": host, "path": "/v1/a", "method": "POST"}),
            json!(denied),
        ),
        (
            json!({"host": "127.0.0.1:1", "path": "/v1/a"}),
            json!(denied),
        ),
        (json!({"host": host, "path": "/v1/b"}), json!(200)),
    ]) {
        let answer = Client::once(server.address, &call(id, &json!([request]), &json!([])));
        let answer: Value = serde_json::from_str(&answer.text()).unwrap();
        let result = &answer["results"][0];
        let got = [&result["status"], &result["error"]];
        assert!(got.contains(&&expected), "{request}: {result}");
    }
    let lines: Vec<String> = web.requests();
    let lines: Vec<_> = lines.iter().filter_map(|it| it.lines().next()).collect();
    assert_eq!(lines, ["GET /v1/a HTTP/1.1", "GET /v1/b HTTP/1.1"]);
    let metrics = Client::once(server.address, &Request::get("/metrics")).body;
    for (result, count) in [("2xx", 2), ("denied", 3)] {
        let line = format!(
            "skillhost_egress_requests_total{{tool=\"send_requests\",result=\"{result}\"}} {count}"
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    server.signal();
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn secret_is_only_in_the_egress_processes() {
    let authority = Authority::new();
    let pair = authority.server_pair();
    let web = WebServer::start_tls(&pair, |_| answer("200 OK", PUBLIC));
    let echo = WebServer::start_tls(&pair, |request| answer("200 OK", request));
    let rules = format!("\", \"https://{}", echo.authority);
    let program = with_secret(&authority, &web.authority, &rules);
    let config = program.folder.path().join("c.toml");
    let hosts = format!("hosts = [\"{}\"", web.authority);
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace(&hosts, &format!("{hosts}, \"{}\"", echo.authority));
    program.write("c.toml", text);
    let arguments = ["serve", "--http", "127.0.0.1:0", "--config", "c.toml"];
    let mut command = program.command(&arguments);
    // The program compiles the component, because this cache is empty.
    command.env("SKILLHOST_CACHE", program.folder.path().join("cache"));
    let child = Process::start(&mut command);
    let server = child.pid;
    wait_until("no process compiles the component", || {
        descendants(server, COMPILE_ARGUMENT).iter().any(|process| {
            // The process may end at any time.
            let _ = kill_process(*process, Signal::STOP);
            let id = process.as_raw_nonzero().get().unsigned_abs();
            let [component, secret] =
                [COMPONENT, SECRET].map(|text| memory::count(id, text).unwrap_or(0));
            let _ = kill_process(*process, Signal::CONT);
            assert_eq!(secret, 0, "the process that compiles");
            component > 0
        })
    });
    let mut serving = ServerProcess::started(child);
    let log = serving.child.collect_stderr();
    wait_until_ready(&serving);

    let token = "Bearer ${TOKEN}";
    let to = |host: &str, path: &str, name: &str| {
        let headers = json!([[name, token]]);
        json!({"scheme": "https", "host": host, "path": path, "headers": headers})
    };
    let requests = json!([
        to(&web.authority, "/", "authorization"),
        to(&web.authority, "/", "x-other"),
        to(&web.authority, "/${TOKEN}", "authorization"),
        to(&echo.authority, "/", "authorization"),
    ]);
    let scan = [SECRET, PUBLIC].map(|text| text.chars().rev().collect::<String>());
    let answered = Client::once(serving.address, &call(1, &requests, &json!(scan)));
    let answer: Value = serde_json::from_str(&answered.text()).unwrap();
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0]["text"], PUBLIC, "{answer}");
    for result in &results[1..] {
        assert!(result["error"].is_string(), "{answer}");
    }
    let sent = [&web, &echo].map(|server| server.requests().concat().matches(SECRET).count());
    assert_eq!(sent, [1, 1]);
    // The guest searched its own memory.
    let found = answer["found"].as_array().unwrap();
    assert_eq!(found[0], 0, "{answer}");
    assert!(found[1].as_u64() > Some(0), "{answer}");

    let metrics = Client::once(serving.address, &Request::get("/metrics")).body;
    let record = fs::read_to_string(program.folder.path().join("log.jsonl")).unwrap();
    let error = "contains the secret `TOKEN`";
    wait_until("the operator is not told", || {
        log.lock().unwrap().contains(error)
    });
    let log = log.lock().unwrap().clone();
    for text in [&format!("{answered:?}"), &metrics, &record, &log] {
        assert!(!text.contains(SECRET), "{text}");
    }
    // The search works: it finds a text that is in the memory.
    assert!(memory::count(server, PUBLIC).unwrap() > 0);
    assert_eq!(memory::count(server, SECRET).unwrap(), 0);
    let broker = descendants(server, skillhost_confine::broker::ARGUMENT);
    assert_eq!(broker.len(), 1);
    for process in broker {
        let id = process.as_raw_nonzero().get().unsigned_abs();
        assert_eq!(memory::count(id, SECRET).unwrap(), 0);
    }
    for argument in ["egress", "egress-sender"] {
        let processes = descendants(server, argument);
        assert_eq!(processes.len(), 1, "{argument}");
        let id = processes[0].as_raw_nonzero().get().unsigned_abs();
        match memory::count(id, SECRET) {
            Ok(found) => assert!(found > 0, "{argument}"),
            // Only root may read this process's memory.
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{argument}"),
        }
    }
    serving.signal();
    assert_eq!(serving.wait(), Some(0));
}

#[test]
fn egress_processes_cannot_be_dumped() {
    let authority = Authority::new();
    let program = with_secret(&authority, "localhost:1", "");
    let copy = UnprivilegedCopy::new();
    copy.give_to_nobody(program.folder.path());
    let mut command = copy.command(&["serve", "--config", "c.toml"]);
    command.current_dir(program.folder.path());
    let server = Process::start(&mut command);
    // The files in `/proc` of a process that cannot be dumped belong to root.
    let owner = |process: u32| {
        let memory = fs::metadata(format!("/proc/{process}/mem"));
        memory.map(|memory| memory.uid()).ok()
    };
    for argument in ["egress", "egress-sender"] {
        wait_until(&format!("{argument} can be dumped"), || {
            let processes = descendants(server.pid, argument);
            let owners = processes
                .iter()
                .map(|process| owner(process.as_raw_nonzero().get().unsigned_abs()));
            owners.eq([Some(0)])
        });
    }
    assert!(owner(server.pid).is_some_and(|owner| owner > 0));
}
