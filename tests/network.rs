//! The HTTP requests of guests, through the program: which are sent, what a guest learns, and what
//! the audit log has.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use skillhost_egress::EgressSettings;
use skillhost_helper::{Kind, read_message, write_message};

use crate::support::certificates::{Authority, write_owner_only};
use crate::support::folders::CANARY;
use crate::support::guests;
use crate::support::mcp::{Client, NEWEST};
use crate::support::process::Process;
use crate::support::program::{Program, Run};
use crate::support::watchdog::{patience, wait_until};
use crate::support::web_server::{WebServer, answer};

/// Returns a program whose guest sends requests, with `grant` in its configuration.
pub(crate) fn program(grant: &str) -> Program {
    let program = Program::new();
    let component = fs::read(guests().join("requests.wasm")).unwrap();
    program.write("tools/requests.wasm", component);
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("c.toml", configuration(grant));
    program
}

fn configuration(grant: &str) -> String {
    format!(
        "skills = [\"skills\"]\ntools = [\"tools\"]\naudit_file = \"log.jsonl\"\n\
         {grant}\n"
    )
}

/// Returns a grant with this rule and these further keys.
pub(crate) fn grant(rule: &str, more: &str) -> String {
    format!("[grants.\"requests.wasm\"]\nnetwork = [\"{rule}\"]\n{more}")
}

fn call(program: &Program, requests: &Value) -> Run {
    let argument = format!("requests={requests}");
    program.run(&["--config", "c.toml", "call", "send_requests", &argument])
}

/// Calls the guest, and returns the results of its requests.
fn send(program: &Program, requests: &Value) -> Vec<Value> {
    let run = call(program, requests);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    answer["results"].as_array().unwrap().clone()
}

/// Returns the last record of the audit log.
fn record(program: &Program) -> Value {
    let log = fs::read_to_string(program.folder.path().join("log.jsonl")).unwrap();
    serde_json::from_str(log.lines().last().unwrap()).unwrap()
}

#[test]
fn sends_only_granted_requests() {
    let server = WebServer::start(|_| answer("200 OK", "hello"));
    let other = WebServer::start(|_| answer("200 OK", "hello"));
    let host = &server.authority;
    let program = program(&grant(&format!("GET,POST http://{host}/v1/*"), ""));
    let denied = || json!("ErrorCode::HttpRequestDenied");
    let cases = [
        (json!({"host": host, "path": "/v1/a?b=c"}), json!(200)),
        (
            json!({"host": host, "path": "/v1/", "method": "POST", "body": "x"}),
            json!(200),
        ),
        (json!({"host": host, "path": "/v1/a/../b"}), json!(200)),
        (
            json!({"host": host, "path": "/v1/", "method": "PUT"}),
            denied(),
        ),
        (json!({"host": host, "path": "/v1/", "body": "x"}), denied()),
        (json!({"host": host, "path": "/v2/"}), denied()),
        (json!({"host": host, "path": "/v1/../v2/"}), denied()),
        (json!({"host": host, "path": "/v1/%2e%2e/v2/"}), denied()),
        (
            json!({"host": host, "path": "/v1/", "scheme": "https"}),
            denied(),
        ),
        (json!({"host": other.authority, "path": "/v1/"}), denied()),
        (json!({"host": "127.0.0.1:80", "path": "/v1/"}), denied()),
    ];
    let requests: Vec<&Value> = cases.iter().map(|(request, _)| request).collect();
    let results = send(&program, &json!(requests));
    for ((request, expected), result) in cases.iter().zip(&results) {
        let got = [&result["status"], &result["error"]];
        assert!(got.contains(&expected), "{request}: {result}");
    }
    assert_eq!(server.requests().len(), 3);
    assert!(server.requests()[2].starts_with("GET /v1/b HTTP/1.1\r\n"));
    assert_eq!(other.requests().len(), 0);
}

#[test]
fn annotations_tell_what_grant_allows() {
    let network = |value: &str| format!("[grants.\"requests.wasm\"]\nnetwork = {value}\n");
    for (grant, [read_only, destructive, idempotent, open_world]) in [
        (String::new(), [true, false, true, false]),
        (
            network(r#"["GET https://a.example"]"#),
            [true, false, true, true],
        ),
        (
            network(r#"["GET,HEAD https://a.example/*"]"#),
            [true, false, true, true],
        ),
        (
            network(r#"["GET https://a.example", "POST https://a.example"]"#),
            [false, true, false, true],
        ),
        (
            network(r#"["https://a.example"]"#),
            [false, true, false, true],
        ),
        (network(r#""ask""#), [false, true, false, true]),
    ] {
        let program = program(&grant);
        let expected = json!({
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        });
        let run = program.run(&["--config", "c.toml", "tools", "--format", "mcp"]);
        let printed: Value =
            serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
        let mut client = Client::start(program.folder.path(), &["--config", "c.toml"], NEWEST);
        client.wait_for_components();
        let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
        for tools in [&printed, &listed] {
            let annotations = |name: &str| {
                let mut tools = tools.as_array().unwrap().iter();
                tools.find(|tool| tool["name"] == name).unwrap()["annotations"].clone()
            };
            assert_eq!(annotations("send_requests"), expected, "{grant}");
            assert_eq!(annotations("read_skill")["openWorldHint"], false, "{grant}");
        }
    }
}

#[test]
fn denials_without_a_grant_are_recorded() {
    let server = WebServer::start(|_| answer("200 OK", "hello"));
    let host = &server.authority;
    let other = grant(&format!("http://{host}"), "").replace("requests.wasm", "other.wasm");
    for grants in ["", &other] {
        let program = program(grants);
        let component = fs::read(guests().join("count_lines.wasm")).unwrap();
        program.write("tools/other.wasm", component);
        let run = call(&program, &json!([{"host": host, "path": "/v1/"}]));
        let result: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(
            result["results"][0]["error"],
            "ErrorCode::HttpRequestDenied"
        );
        let line = format!(
            "`requests.wasm` requested GET http://{host} and got no response: the component has no \
             `network` grant"
        );
        assert!(run.stderr.contains(&line), "{run:?}");
        let record = record(&program);
        let requests = record["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 1, "{record}");
        for (key, expected) in [
            ("method", json!("GET")),
            ("origin", json!(format!("http://{host}"))),
            ("failure", json!("denied")),
            ("rule", json!("no grant")),
            ("address", Value::Null),
        ] {
            assert_eq!(requests[0][key], expected, "{key}");
        }
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn limits_length_of_methods_and_hosts() {
    let program = program("");
    for (method, host, refused) in [
        (64, 320, "ErrorCode::HttpRequestDenied"),
        (65, 320, "method"),
        (64, 321, "host"),
    ] {
        let (method, host) = ("M".repeat(method), "h".repeat(host));
        let results = send(
            &program,
            &json!([{"host": host, "path": "/", "method": method}]),
        );
        assert_eq!(results[0]["error"], refused, "{results:?}");
    }
}

#[test]
fn record_marks_truncated_rule() {
    let server = WebServer::start(|_| answer("200 OK", "hello"));
    let host = &server.authority;
    for (length, cut) in [(100, Value::Null), (600, json!(["requests"]))] {
        let path = format!("/{}", "a".repeat(length));
        let program = program(&grant(&format!("http://{host}{path}"), ""));
        let results = send(&program, &json!([{"host": host, "path": path}]));
        assert_eq!(results[0]["status"], 200, "{results:?}");
        assert_eq!(record(&program)["truncated"], cut);
    }
}

#[test]
fn record_has_each_request() {
    let server = WebServer::start(|_| answer("404 Not Found", "none"));
    let host = &server.authority;
    let program = program(&grant(&format!("http://{host}/a*"), ""));
    let body = "x".repeat(5_000);
    let requests = json!([
        {"host": host, "path": format!("/a?q={CANARY}"), "method": "POST", "body": body},
        {"host": host, "path": "/b"},
        {"host": "a b", "path": "/"},
    ]);
    send(&program, &requests);
    let record = record(&program);
    let requests = record["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 2, "{record}");
    let address = host.replace("localhost", "127.0.0.1");
    for (key, expected) in [
        ("method", json!("POST")),
        ("origin", json!(format!("http://{host}"))),
        ("address", json!(address)),
        ("status", json!(404)),
        ("failure", json!(null)),
        ("sent_bytes", json!(5_000)),
        ("received_bytes", json!(4)),
        ("rule", json!(format!("http://{host}/a*"))),
    ] {
        assert_eq!(requests[0][key], expected, "{key}");
    }
    assert!(requests[0]["duration_us"].as_u64() > Some(0));
    assert_eq!(requests[1]["failure"], "denied");
    assert_eq!(requests[1]["status"], Value::Null);
    assert!(!record.to_string().contains(CANARY), "{record}");
}

#[test]
fn limits_bound_the_requests_of_a_call() {
    let server = WebServer::start(|_| answer("200 OK", &"x".repeat(50_000)));
    let host = &server.authority;
    let request = json!({"host": host, "path": "/", "method": "POST", "body": "y".repeat(1_000)});
    for (limit, at, expected) in [
        ("requests = 2", 2, "ErrorCode::ConnectionLimitReached"),
        ("request_bytes = 1500", 1, "ErrorCode::"),
        (
            "response_bytes = 60000",
            1,
            "HTTP response body size exceeds limit",
        ),
    ] {
        let limits = format!("limits = {{ {limit} }}");
        let program = program(&grant(&format!("http://{host}"), &limits));
        let results = send(&program, &json!([request, request, request]));
        assert_eq!(
            (&results[0]["status"], &results[0]["error"]),
            (&json!(200), &Value::Null)
        );
        let error = results[at]["error"].as_str().unwrap_or_default();
        assert!(error.starts_with(expected), "{limit}: {results:?}");
        // The record counts requests beyond the limit.
        let record = record(&program);
        let listed = record["requests"].as_array().unwrap().len();
        let expected = if limit.starts_with("requests") {
            (2, json!(3))
        } else {
            (3, Value::Null)
        };
        assert_eq!((listed, record["requests_total"].clone()), expected);
    }
}

#[test]
fn record_has_secrets_of_requests_that_get_no_response() {
    let (end, ended) = mpsc::channel::<()>();
    let (authority, ended) = (Authority::new(), Mutex::new(ended));
    let server = WebServer::start_tls(&authority.server_pair(), move |_| {
        let _ = ended.lock().unwrap().recv_timeout(patience());
        answer("200 OK", "ok")
    });
    let host = &server.authority;
    for (limits, first_byte_ms, failure) in
        [("", 300, "timeout"), ("time = \"1s\"", 60_000, "cancelled")]
    {
        let more = format!(
            "limits = {{ {limits} }}\nsecrets.TOKEN = {{ file = \"token\", header = \
             \"Authorization\", hosts = [\"{host}\"] }}\n[network]\nca_file = \"ca.pem\""
        );
        let rule = format!("https://{host}/*");
        let program = program(&grant(&rule, &more));
        program.write("ca.pem", &authority.certificate);
        write_owner_only(&program, "token", &format!("{CANARY}\n"));
        let request = json!({
            "scheme": "https", "host": host, "path": "/", "first_byte_ms": first_byte_ms,
            "headers": [["authorization", "Bearer ${TOKEN}"]],
        });
        call(&program, &json!([request]));
        let request = &record(&program)["requests"][0];
        for (key, expected) in [
            ("failure", json!(failure)),
            ("rule", json!(rule)),
            ("secrets", json!(["TOKEN"])),
            ("address", Value::Null),
        ] {
            assert_eq!(request[key], expected, "{key}: {request}");
        }
    }
    drop(end);
}

/// The maximum number of bytes that an endless server can send: the limit of the guest, and the
/// buffers of the sockets.
const MAX_ENDLESS: usize = 32 << 20;

#[test]
fn endless_servers_are_bounded_and_reported() {
    let status_line = "HTTP/1.1 200 OK\r\n";
    let whole_head = "HTTP/1.1 200 OK\r\n\r\n";
    let [byte, header, piece] = [
        "x",
        Box::leak(format!("a: {}\r\n", "x".repeat(8_000)).into_boxed_str()),
        Box::leak("x".repeat(100_000).into_boxed_str()),
    ];
    let one_second = Duration::from_secs(1);
    for (start, piece, pause, option, error, line, failure) in [
        (
            status_line,
            byte,
            one_second,
            ("first_byte_ms", json!(2_500)),
            "ErrorCode::ConnectionReadTimeout",
            "got no response: the server did not answer in 2.5s",
            json!("timeout"),
        ),
        (
            status_line,
            header,
            Duration::ZERO,
            ("read", json!("all")),
            "ErrorCode::HttpProtocolError",
            "got no response: ",
            json!("protocol"),
        ),
        (
            whole_head,
            byte,
            one_second,
            ("between_ms", json!(100)),
            "timeout",
            "got only a part of the response: ",
            json!("incomplete"),
        ),
        (
            whole_head,
            piece,
            Duration::ZERO,
            ("read", json!("all")),
            "HTTP response body size exceeds limit",
            "got only a part of the response: ",
            json!("incomplete"),
        ),
    ] {
        let (server, sent) = WebServer::start_endless(start, piece, pause);
        let host = &server.authority;
        let limits = "limits = { response_bytes = 1000000 }";
        let program = program(&grant(&format!("http://{host}"), limits));
        let mut request = json!({"host": host, "path": "/"});
        request[option.0] = option.1;
        let run = call(&program, &json!([request]));
        let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
        let message = answer["results"][0]["error"].as_str().unwrap_or_default();
        assert!(message.contains(error), "{error}: {run:?}");
        assert!(!message.contains(host), "{message}");
        let lines: Vec<&str> = run.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{run:?}");
        let expected = format!("`requests.wasm` requested GET http://{host} and {line}");
        assert!(lines[0].contains(&expected), "{run:?}");
        assert_eq!(record(&program)["requests"][0]["failure"], failure);
        assert!(sent.load(Ordering::SeqCst) < MAX_ENDLESS, "{error}");
    }
}

#[test]
fn unread_and_slow_bodies_end_with_the_call() {
    let head = "HTTP/1.1 200 OK\r\n\r\n";
    let piece = Box::leak("x".repeat(100_000).into_boxed_str());
    let (slow, _) = WebServer::start_endless(head, "x", Duration::from_millis(200));
    let (fast, sent) = WebServer::start_endless(head, piece, Duration::ZERO);
    let rules = format!("http://{}\", \"http://{}", slow.authority, fast.authority);
    let program = program(&grant(&rules, "limits = { time = \"3s\" }"));
    // The host reads no more of a body than the guest.
    let unread = json!({"host": fast.authority, "path": "/", "read": "none"});
    let results = send(&program, &json!([unread]));
    assert_eq!(results[0]["status"], 200, "{results:?}");
    assert!(sent.load(Ordering::SeqCst) < MAX_ENDLESS);
    // Each byte comes in time, but the body does not end.
    let run = call(&program, &json!([{"host": slow.authority, "path": "/"}]));
    assert_ne!(run.code, 0, "{run:?}");
    let record = record(&program);
    assert_eq!(
        (&record["outcome"], &record["reason"]),
        (&json!("stopped"), &json!("time"))
    );
    let request = &record["requests"][0];
    assert_eq!(request["status"], 200, "{record}");
    assert!(request["received_bytes"].as_u64() > Some(0), "{record}");
}

#[test]
fn thousands_of_requests_log_one_line() {
    let server = WebServer::start(|_| answer("200 OK", "hello"));
    let host = &server.authority;
    // Each request keeps the handle of its options until the call ends.
    let limits = "limits = { requests = 3, handles = 100000, time = \"5m\" }";
    let program = program(&grant(&format!("http://{host}"), limits));
    let requests = json!([{"host": host, "path": "/", "repeat": 10_000}]);
    let run = call(&program, &requests);
    assert!(
        run.stdout.contains("ErrorCode::ConnectionLimitReached"),
        "{run:?}"
    );
    assert_eq!(server.requests().len(), 3);
    let line = "`requests.wasm` sends more requests in a call than `limits.requests` allows: 3";
    assert_eq!(run.stderr.matches(line).count(), 1, "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
}

#[test]
fn large_request_bodies_are_reported() {
    let server = WebServer::start(|_| answer("200 OK", "hello"));
    let host = &server.authority;
    let limits = "limits = { request_bytes = 20000 }";
    let program = program(&grant(&format!("http://{host}"), limits));
    let body = "y".repeat(60_000);
    let run = call(
        &program,
        &json!([{"host": host, "path": "/", "method": "POST", "body": body}]),
    );
    assert!(
        run.stdout.contains("ErrorCode::HttpRequestBodySize"),
        "{run:?}"
    );
    let line = "the bodies of the call's requests exceed `limits.request_bytes`: 20000";
    assert_eq!(run.stderr.matches(line).count(), 1, "{run:?}");
}

#[test]
fn incomplete_bodies_and_their_denials_are_recorded() {
    let server = WebServer::start(|_| answer("200 OK", "hello"));
    let host = &server.authority;
    let program = program(&grant(&format!("POST http://{host}/a"), ""));
    let request = |path: &str| {
        let headers = [["content-length", "5"]];
        json!({"host": host, "path": path, "method": "POST", "headers": headers, "body": ""})
    };
    let run = call(&program, &json!([request("/a"), request("/b")]));
    assert!(!run.stderr.contains("the egress process"), "{run:?}");
    assert!(
        run.stderr.contains("the request's body is incomplete"),
        "{run:?}"
    );
    let requests = &record(&program)["requests"];
    let failures = [&requests[0]["failure"], &requests[1]["failure"]];
    assert_eq!(failures, ["body", "denied"]);
    // A private address that a rule allows, but that the grant does not name.
    let host = &host.replace("localhost", "127.0.0.1");
    let rule = format!("POST http://{host}/*");
    program.write("c.toml", configuration(&grant(&rule, "")));
    let headers = [["content-length", "5"]];
    let request = json!({"host": host, "path": "/", "method": "POST", "headers": headers});
    call(&program, &json!([request]));
    let request = &record(&program)["requests"][0];
    assert_eq!(
        (&request["failure"], &request["rule"]),
        (&json!("denied"), &json!(rule))
    );
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn guest_sends_secret_where_granted_without_learning_it() {
    let authority = Authority::new();
    let server = WebServer::start_tls(&authority.server_pair(), |_| answer("200 OK", "ok"));
    // This server sends each request back.
    let echo = WebServer::start_tls(&authority.server_pair(), |request| {
        answer("200 OK", request)
    });
    let (host, echo_host) = (&server.authority, &echo.authority);
    let more = format!(
        "secrets.TOKEN = {{ file = \"token\", header = \"Authorization\", \
         hosts = [\"{host}\", \"{echo_host}\"] }}\n[network]\nca_file = \"ca.pem\""
    );
    let program = program(&grant("https://localhost:*/*", &more).replace("localhost:*", host));
    let config = fs::read_to_string(program.folder.path().join("c.toml")).unwrap();
    let rule = format!("\"https://{host}/*\"");
    let rules = format!("{rule}, \"https://{echo_host}\"");
    program.write("c.toml", config.replace(&rule, &rules));
    program.write("ca.pem", &authority.certificate);
    write_owner_only(&program, "token", &format!("{CANARY}\n"));
    let post = |host: &str, path: &str, name: &str, value: &str, body: &str| {
        json!({"scheme": "https", "host": host, "path": path, "headers": [[name, value]],
               "method": "POST", "body": body})
    };
    let token = "Bearer ${TOKEN}";
    let denied = Some("ErrorCode::HttpRequestDenied");
    let cases = [
        (post(host, "/", "authorization", token, ""), None),
        (post(host, "/", "x-authorization", token, ""), denied),
        (post(host, "/${TOKEN}", "x-a", "", ""), denied),
        (
            post(host, "/?a=${TOKEN}", "authorization", token, ""),
            denied,
        ),
        // A body is not changed: the server gets the placeholder.
        (post(host, "/", "x-a", "", "${TOKEN}"), None),
        (
            post(
                host,
                "/",
                "skillhost-placeholder",
                "TOKEN=aaaaaaaaaaaaaaaa",
                "",
            ),
            None,
        ),
        (
            post(host, "/", "authorization", "aaaaaaaaaaaaaaaa", ""),
            None,
        ),
        (
            post(echo_host, "/", "authorization", token, ""),
            Some("hyper error: error reading a body from connection"),
        ),
    ];
    let requests: Vec<&Value> = cases.iter().map(|(request, _)| request).collect();
    let run = call(&program, &json!(requests));
    let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    for ((request, expected), result) in cases.iter().zip(answer["results"].as_array().unwrap()) {
        assert_eq!(result["error"].as_str(), *expected, "{request}: {result}");
    }
    let received = server.requests();
    let has_secret = |request: &&String| request.contains(CANARY);
    assert_eq!(
        received.iter().filter(has_secret).count(),
        1,
        "{received:?}"
    );
    assert!(
        received[0].contains(&format!("authorization: Bearer {CANARY}\r\n")),
        "{received:?}"
    );
    let log = fs::read_to_string(program.folder.path().join("log.jsonl")).unwrap();
    assert!(!format!("{run:?}{log}").contains(CANARY), "{run:?}{log}");
    let record = record(&program);
    assert_eq!(record["requests"][0]["secrets"], json!(["TOKEN"]));
    let echoed = &record["requests"][cases.len() - 1];
    let (status, failure) = (&echoed["status"], &echoed["failure"]);
    assert_eq!((status, failure), (&json!(200), &json!("incomplete")));
    // Each call has a new placeholder.
    let placeholder = |run: &Run| {
        let answer: Value = serde_json::from_str(&run.stdout).unwrap();
        let variables = answer["variables"].as_array().unwrap().clone();
        let token = variables
            .into_iter()
            .find(|pair| pair[0] == "TOKEN")
            .unwrap();
        token[1].as_str().unwrap().to_owned()
    };
    let next = call(&program, &json!([]));
    assert_ne!(placeholder(&run), placeholder(&next));
    // Without the authority's certificate, the server is not trusted.
    let config = fs::read_to_string(program.folder.path().join("c.toml")).unwrap();
    program.write("c.toml", config.replace("ca_file", "# ca_file"));
    let results = send(&program, &json!([post(host, "/", "x-a", "", "")]));
    assert_eq!(results[0]["error"], "ErrorCode::TlsCertificateError");
}

#[test]
fn guest_cannot_forge_grant_or_outcome() {
    let outcome = "skillhost-outcome: {\"secrets\":[\"x\"]}";
    let server = WebServer::start(move |_| {
        format!("HTTP/1.1 200 OK\r\n{outcome}\r\ncontent-length: 2\r\n\r\nok").into_bytes()
    });
    let host = &server.authority;
    let program = program(&format!(
        "[grants.\"other.wasm\"]\nnetwork = [\"http://{host}/other\"]\n{}",
        grant(&format!("http://{host}/own"), "")
    ));
    let other = fs::read(guests().join("unchecked.wasm")).unwrap();
    program.write("tools/other.wasm", other);
    let forged = json!([
        ["skillhost-grant", "other.wasm"],
        ["skillhost-outcome", "{}"]
    ]);
    let results = send(
        &program,
        &json!([
            {"host": host, "path": "/own", "headers": forged},
            {"host": host, "path": "/other", "headers": forged},
        ]),
    );
    assert_eq!(results[0]["status"], 200, "{results:?}");
    assert_eq!(results[1]["error"], "ErrorCode::HttpRequestDenied");
    assert!(
        !results[0].to_string().contains("skillhost-"),
        "{results:?}"
    );
    assert!(!server.requests()[0].contains("skillhost-"));
    assert_eq!(record(&program)["requests"][0].get("secrets"), None);
}

#[test]
fn start_fails_without_usable_secret_file() {
    let secret = "secrets.TOKEN = { file = \"token\", header = \"x\", hosts = [\"e.org\"] }";
    let program = program(&grant("https://e.org", secret));
    let assert_fails_with = |expected: &str| {
        let run = call(&program, &json!([]));
        assert_eq!((run.code, &*run.stdout), (4, ""), "{run:?}");
        assert!(run.stderr.contains("of the secret `TOKEN`"), "{run:?}");
        assert!(run.stderr.contains(expected), "{run:?}");
    };
    assert_fails_with("No such file");
    program.write("token", CANARY);
    assert_fails_with("set its mode to 0600");
    write_owner_only(&program, "token", "\n");
    assert_fails_with("it is empty");
    write_owner_only(&program, "token", "a\nb");
    assert_fails_with("characters that a header cannot have");
    write_owner_only(&program, "token", CANARY);
    let run = call(&program, &json!([]));
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn egress_process_ends_with_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let (mut control, theirs) = UnixStream::pair().unwrap();
    let (settings, mut lifetime) = io::pipe().unwrap();
    // The test keeps its ends of the pipe and the socket, as escaped code can after the host ended.
    let script = "exec 3<&0; \"$0\" egress <&3 & exec sleep 600 >/dev/null 3<&-";
    let mut host = Command::new("sh");
    host.args(["-c", script, env!("CARGO_BIN_EXE_skillhost")])
        .current_dir(folder.path())
        .stdin(settings)
        .stdout(OwnedFd::from(theirs));
    let host_process = Process::start(&mut host);
    // Closes this process's copies of the other ends.
    drop(host);
    let grants = serde_json::to_vec(&EgressSettings::new()).unwrap();
    write_message(&mut lifetime, Kind::Request, &grants).unwrap();
    let answer = read_message(&mut control, 4096).unwrap().unwrap();
    assert!(matches!(answer.kind, Kind::Answer));
    host_process.signal(Signal::KILL);
    host_process.wait();
    control.set_read_timeout(Some(patience())).unwrap();
    assert_eq!(control.read(&mut [0]).unwrap(), 0);
}

#[test]
fn found_configuration_grants_no_network() {
    for keys in [
        grant("https://e.org", ""),
        "[grants.\"requests.wasm\"]\nnetwork_private = [\"10.0.0.1\"]".to_owned(),
        "[network]\nca_file = \"ca.pem\"".to_owned(),
    ] {
        let program = program("");
        program.write("skillhost.toml", format!("skills = [\"skills\"]\n{keys}\n"));
        let run = program.run(&["call", "list_skills"]);
        assert_eq!(run.code, 4, "{run:?}");
        assert!(
            run.stderr.contains("was found and was not named"),
            "{run:?}"
        );
    }
}

#[test]
fn reports_wrong_rules_with_their_line() {
    for (grant, expected) in [
        (
            "network = [\n\"GET https://e.org\",\n\"e.org\"]",
            "line 7: `network`: `e.org`",
        ),
        ("network = [\"https://u@e.org\"]", "line 5: `network`"),
        ("network_private = [\"e.org\"]", "line 5: `network_private`"),
        (
            "secrets.A = { file = \"a\", header = \"a b\", hosts = [\"e.org\"] }",
            "line 5: secret `A`",
        ),
        (
            "secrets.A = { file = \"a\", header = \"a\", hosts = [] }",
            "no `hosts`",
        ),
        (
            "secrets.A = { file = \"a\", header = \"a\", hosts = [\"e.org\"] }\nenvironment.A = \"a\"",
            "both set the variable `A`",
        ),
        ("limits = { requests = 0 }", "`requests` is at least 1"),
    ] {
        let program = program(&format!("[grants.\"requests.wasm\"]\n{grant}"));
        let run = call(&program, &json!([]));
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.stderr.contains(expected), "{expected}: {run:?}");
    }
}

#[test]
fn starts_egress_process_for_grants_and_restarts_it() {
    let server = WebServer::start(|_| answer("200 OK", "hello"));
    let host = &server.authority;
    let without = program("");
    let client = Client::start(without.folder.path(), &["--config", "c.toml"], NEWEST);
    assert_eq!(client.descendants("egress"), []);
    let program = program(&grant(&format!("http://{host}"), ""));
    let mut client = Client::start(program.folder.path(), &["--config", "c.toml"], NEWEST);
    client.wait_for_components();
    let requests = json!([{"host": host, "path": "/"}]).to_string();
    let mut status = || {
        let answer = client.call("send_requests", json!({"requests": requests}));
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        let answer: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer}"));
        answer["results"][0]["status"].clone()
    };
    assert_eq!(status(), 200);
    let sender = client.descendants("egress-sender");
    assert_eq!((client.descendants("egress").len(), sender.len()), (1, 1));
    kill_process(sender[0], Signal::KILL).unwrap();
    wait_until("the process is not started again", || {
        let now = client.descendants("egress-sender");
        now.len() == 1 && now != sender
    });
    let answer = client.call("send_requests", json!({"requests": requests}));
    assert!(answer.to_string().contains("200"), "{answer}");
    let supervisor = client.descendants("egress");
    client.end();
    wait_until("the process outlives its server", || {
        rustix::process::test_kill_process(supervisor[0]).is_err()
    });
}
