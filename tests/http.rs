//! The server over HTTP, asked by clients that follow the rules and by clients
//! that do not. Each server listens at a port of loopback that the system
//! chooses.

// Answers that nobody reads.
mod answers;
// Requests that are made to be taken for something else.
mod hostile_requests;
// Connections that are silent, and the peers that they would shut out.
mod places;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost::Config;
use skillhost_mcp::http::{HttpLimits, Options, Server, Token};

use crate::support::folders::Folders;
use crate::support::http::{Client, Request, Serving, meta};
use crate::support::program::{Program, finish};
use crate::support::{again, builder, builder_with_guests, is_again, model_text, repository};

const TOKEN: &str = "correct-horse-battery";

/// A server over the sample skills.
fn serve(options: Options) -> Serving {
    Serving::start(builder().skills(repository().join("skills")), options)
}

/// A server with the test guests, over one skill.
fn serve_guests(options: Options) -> (Serving, Folders) {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let builder = builder_with_guests().skills(&folders.root);
    (Serving::start(builder, options), folders)
}

fn options(set: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    set(&mut options);
    options
}

fn limited(set: impl FnOnce(&mut HttpLimits)) -> Options {
    options(|options| set(&mut options.limits))
}

/// A call that ends in a short text.
fn read(id: u64) -> Request {
    let arguments = json!({"skill_name": "calculator", "file_path": "examples/basic.py"});
    Request::call(id, "read_file_in_skill", arguments)
}

/// A call that does not end.
fn wait_for_ever(id: u64) -> Request {
    Request::call(id, "raw_sleep", json!({"skill_name": "a", "path": "p"}))
}

/// Waits until a condition holds, for as long as a slow machine may take.
fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

#[test]
fn a_client_shakes_hands_and_calls_a_tool() {
    let server = serve(Options::default());
    let mut client = Client::connect(server.address);
    let hello = json!({
        "jsonrpc": "2.0", "id": "first", "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let answer = client.ask(&Request::post(hello.to_string()));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let hello = answer.json();
    assert_eq!(hello["id"], "first");
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");

    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = client.ask(&Request::post(ready.to_string()));
    assert_eq!((answer.status, &*answer.body), (202, ""));

    let answer = client.ask(&read(7));
    assert_eq!((answer.status, &answer.json()["id"]), (200, &json!(7)));
    assert!(answer.text().contains("def add"), "{answer:?}");
}

#[test]
fn a_request_needs_nothing_of_an_earlier_one() {
    let (one, other) = (serve(Options::default()), serve(Options::default()));
    for server in [&one, &other, &one] {
        let answer = Client::once(server.address, &read(1));
        assert!(answer.text().contains("def add"));
        let arguments = json!({"skill_name": "calculator", "file_path": "none"});
        let request = Request::call_2026(2, "read_file_in_skill", arguments);
        let answer = Client::once(server.address, &request.with("Mcp-Session-Id", "made-up"));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["result"]["isError"], true);
        assert!(answer.text().starts_with("ERROR: "), "{answer:?}");
    }
}

#[test]
fn only_the_token_opens_tools_and_metrics() {
    let token = Token::new(TOKEN).unwrap();
    let server = serve(options(|options| options.token = Some(token)));
    let bearer = format!("Bearer {TOKEN}");
    for request in [read(1), Request::get("/metrics")] {
        let ask = |request: &Request| Client::once(server.address, request);
        let answer = ask(&request);
        assert_eq!(answer.status, 401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        for wrong in [
            "Bearer wrong",
            "Basic abc",
            TOKEN,
            &bearer[..bearer.len() - 1],
        ] {
            let answer = ask(&request.clone().with("Authorization", wrong));
            assert_eq!(answer.status, 401, "{wrong}");
            assert!(
                answer
                    .header("www-authenticate")
                    .unwrap()
                    .contains("invalid_token")
            );
        }
        assert_eq!(
            ask(&request.clone().with("Authorization", &bearer)).status,
            200
        );
    }
    for open in ["/healthz", "/readyz"] {
        assert_eq!(
            Client::once(server.address, &Request::get(open)).status,
            200
        );
    }
}

#[test]
fn a_page_from_elsewhere_cannot_use_the_browser_of_the_operator() {
    let server = serve(Options::default());
    let port = server.address.port();
    for request in [read(1), Request::get("/metrics")] {
        let ask =
            |name, value: &str| Client::once(server.address, &request.clone().with(name, value));
        for host in ["evil.example", "localhost.evil.example", "169.254.1.1"] {
            assert_eq!(ask("Host", host).status, 403, "{host}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:1",
            "https://localhost:80",
        ] {
            assert_eq!(ask("Origin", origin).status, 403, "{origin}");
        }
        let own = format!("localhost:{port}");
        let request = request
            .clone()
            .with("Host", &own)
            .with("Origin", &format!("http://{own}"));
        assert_eq!(Client::once(server.address, &request).status, 200);
    }
    assert_eq!(
        Client::once(server.address, &read(1).without("Host")).status,
        400
    );
    let line = Request {
        line: "POST http://evil.example/mcp HTTP/1.1".into(),
        ..read(1)
    };
    assert_eq!(Client::once(server.address, &line).status, 403);
}

#[test]
fn a_page_that_is_allowed_is_told_so_and_still_needs_the_token() {
    let page = "https://app.example";
    let server = serve(options(|options| {
        options.token = Some(Token::new(TOKEN).unwrap());
        options.allowed_origins = vec![page.into()];
        options.allowed_hosts = vec!["mcp.example".into()];
    }));
    let ask = |request: &Request| Client::once(server.address, request);
    let from = read(1).with("Host", "mcp.example").with("Origin", page);
    let before = Request {
        line: "OPTIONS /mcp HTTP/1.1".into(),
        body: Vec::new(),
        ..from.clone()
    };
    let before = before
        .without("Content-Length")
        .with("Access-Control-Request-Headers", "authorization");
    let answer = ask(&before);
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some(page));
    assert_eq!(
        answer.header("access-control-allow-headers"),
        Some("authorization")
    );
    let answer = ask(&from);
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (401, Some(page))
    );
    let answer = ask(&from.with("Authorization", &format!("Bearer {TOKEN}")));
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, Some(page))
    );
    let answer = ask(&before.with("Origin", "https://other.example"));
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (403, None)
    );
}

#[test]
fn what_is_no_proper_request_gets_its_answer_and_the_next_client_is_served() {
    let server = serve(limited(|limits| limits.body = 10_000));
    let ask = |request: &Request| Client::once(server.address, request);
    let error = |body: &str, code: i64, id: Value| {
        let answer = ask(&Request::post(body));
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let json = answer.json();
        assert_eq!(
            (&json["jsonrpc"], &json["id"]),
            (&json!("2.0"), &id),
            "{body}"
        );
        assert_eq!(json["error"]["code"], code, "{body}");
    };
    for body in ["", "{", "nonsense", "{\"jsonrpc\": \"2.0\", \"id\": 1,"] {
        error(body, -32700, Value::Null);
    }
    let deep = "[".repeat(5000);
    error(&deep, -32700, Value::Null);
    for body in [
        "[]",
        "1",
        "null",
        "{}",
        "{\"jsonrpc\":\"2.0\"}",
        "[{\"jsonrpc\":\"2.0\"}]",
    ] {
        error(body, -32600, Value::Null);
    }
    error(
        "{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"ping\"}",
        -32600,
        json!(5),
    );
    error(
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":5}",
        -32600,
        json!("x"),
    );
    error(
        "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}",
        -32600,
        Value::Null,
    );
    let many = |id: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",{id}\"method\":\"ping\",\"a\":[{}1]}}",
            "1,".repeat(20_000)
        )
    };
    let roomy = serve(Options::default());
    for (id, expected) in [
        ("\"id\":8,", json!(8)),
        ("\"id\":[[]],", Value::Null),
        ("", Value::Null),
    ] {
        let answer = Client::once(roomy.address, &Request::post(many(id)));
        assert_eq!(
            (answer.status, &answer.json()["id"]),
            (400, &expected),
            "{id}"
        );
        assert!(answer.body.contains("too many values"), "{answer:?}");
    }
    let not_utf8 = ask(&Request::post(b"{\"jsonrpc\":\"2.0\xff\"}".as_slice()));
    assert_eq!(
        (not_utf8.status, &not_utf8.json()["error"]["code"]),
        (400, &json!(-32700))
    );

    let unknown = json!({"jsonrpc": "2.0", "id": 3, "method": "no/such"}).to_string();
    let answer = ask(&Request::post(&*unknown));
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (200, &json!(-32601))
    );

    let cases = [
        (read(1).with("Content-Type", "text/plain"), 415),
        (read(1).without("Content-Type"), 415),
        (read(1).with("Accept", "application/json"), 406),
        (read(1).without("Accept"), 406),
        (read(1).with("MCP-Protocol-Version", "1999-01-01"), 400),
        (read(1).with("MCP-Protocol-Version", "2026-07-28"), 400),
        (
            Request {
                line: "DELETE /mcp HTTP/1.1".into(),
                ..read(1)
            },
            405,
        ),
        (
            Request {
                line: "PUT /mcp HTTP/1.1".into(),
                ..read(1)
            },
            405,
        ),
        (
            Request {
                line: "OPTIONS /mcp HTTP/1.1".into(),
                ..read(1)
            },
            405,
        ),
        (
            Request::get("/mcp")
                .with("Accept", "text/event-stream")
                .with("MCP-Protocol-Version", "2026-07-28"),
            405,
        ),
        (Request::get("/mcp"), 405),
        (Request::get("/mcp").with("Accept", "application/json"), 405),
        (
            Request {
                line: "POST /healthz HTTP/1.1".into(),
                ..read(1)
            },
            405,
        ),
        (Request::get("/none"), 404),
        (Request::get("/mcp/"), 404),
        (Request::get("/../etc/passwd"), 404),
    ];
    for (request, status) in cases {
        let answer = ask(&request);
        assert_eq!(answer.status, status, "{} {answer:?}", request.line);
        if status == 405 && request.line.contains("/mcp") {
            assert_eq!(answer.header("allow"), Some("GET, POST"));
        }
    }
    let mut client = Client::connect(server.address);
    client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is no HTTP\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 400);
    assert!(client.is_closed());
    let many = Request::get("/healthz").with("X-Many", &"x".repeat(100_000));
    let mut client = Client::connect(server.address);
    let _ = client.try_send(&many.bytes());
    assert_eq!(client.answer().map_or(431, |answer| answer.status), 431);

    assert_eq!(ask(&read(1)).status, 200);
}

#[test]
fn a_request_of_2026_07_28_says_the_same_in_headers_and_body() {
    let server = serve(Options::default());
    let arguments = json!({"skill_name": "calculator", "file_path": "examples/basic.py"});
    let request = Request::call_2026(1, "read_file_in_skill", arguments);
    let ask = |request: Request| Client::once(server.address, &request);
    assert!(ask(request.clone()).text().contains("def add"));
    let changed = [
        request.clone().with("Mcp-Method", "tools/list"),
        request.clone().without("Mcp-Method"),
        request.clone().with("Mcp-Name", "get_skill"),
        request.clone().without("Mcp-Name"),
        request.clone().without("MCP-Protocol-Version"),
        request.clone().with("MCP-Protocol-Version", "2025-11-25"),
    ];
    for request in changed {
        let answer = ask(request.clone());
        assert_eq!(answer.status, 400, "{:?}", request.headers);
        assert_eq!(
            answer.json()["error"]["code"],
            -32020,
            "{:?}",
            request.headers
        );
    }
    // The last four were methods of older revisions.
    for method in [
        "no/such",
        "initialize",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    ] {
        let params = json!({"_meta": meta()});
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let unknown = Request::post(asked.to_string());
        let unknown = unknown
            .with("MCP-Protocol-Version", "2026-07-28")
            .with("Mcp-Method", method);
        let answer = ask(unknown);
        assert_eq!(
            (answer.status, &answer.json()["error"]["code"]),
            (404, &json!(-32601)),
            "{method}"
        );
    }
}

#[test]
fn a_body_past_its_bound_is_refused_however_it_is_sent() {
    let server = serve(limited(|limits| limits.body = 1000));
    let mut client = Client::connect(server.address);
    // Announced: refused before a byte of it is sent.
    let announced = Request::post(Vec::new()).with("Content-Length", "1001");
    client.send(&announced.bytes());
    let answer = client.answer().unwrap();
    assert_eq!(
        (answer.status, answer.header("connection")),
        (413, Some("close"))
    );
    assert!(client.is_closed());
    // In chunks, whose end is not known before.
    let mut client = Client::connect(server.address);
    let chunked = Request::post(Vec::new()).without("Content-Length");
    client.send(&chunked.with("Transfer-Encoding", "chunked").bytes());
    for _ in 0..4 {
        let chunk = format!("100\r\n{}\r\n", "x".repeat(256));
        let _ = client.try_send(chunk.as_bytes());
    }
    assert_eq!(client.answer().unwrap().status, 413);
    assert!(client.is_closed());
    // One that fits.
    let mut body = read(1).body;
    body.resize(1000, b' ');
    assert_eq!(
        Client::once(server.address, &Request::post(body)).status,
        200
    );
}

#[test]
fn a_peer_that_stalls_is_let_go_of() {
    let server = serve(limited(|limits| {
        limits.header_time = Duration::from_millis(200);
        limits.body_time = Duration::from_millis(200);
    }));
    let whole = read(1).bytes();
    let body_at = whole
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap()
        + 4;
    // Nothing; half of the headers; half of the body.
    for (sent, status) in [(0, None), (20, None), (body_at + 5, Some(408))] {
        let mut client = Client::connect(server.address);
        let start = Instant::now();
        client.send(&whole[..sent]);
        if let Some(status) = status {
            assert_eq!(client.answer().unwrap().status, status);
        }
        while !client.is_closed() {}
        assert!(start.elapsed() < Duration::from_secs(5), "{sent}");
    }
    // Byte by byte: the time is the whole request's.
    let mut client = Client::connect(server.address);
    let start = Instant::now();
    let sent = whole[..body_at].iter().take_while(|byte| {
        thread::sleep(Duration::from_millis(20));
        client.try_send(&[**byte]).is_ok()
    });
    assert!(sent.count() < body_at);
    assert!(start.elapsed() < Duration::from_secs(5));
    // A connection that was used and is not any more.
    let mut client = Client::connect(server.address);
    assert_eq!(client.ask(&read(1)).status, 200);
    assert!(client.is_closed());
}

#[test]
fn a_peer_that_does_not_read_is_let_go_of() {
    let options = limited(|limits| limits.write_time = Duration::from_millis(300));
    let (server, folders) = serve_guests(options);
    folders.write("a/large.txt", "x".repeat(8 << 20));
    let mut client = Client::connect(server.address);
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    client.send(&Request::call(1, "read_file_in_skill", arguments.clone()).bytes());
    // Not a byte is read, until the server has given up.
    let metrics = || Client::once(server.address, &Request::get("/metrics")).body;
    until("still connected", || {
        metrics().contains("skillhost_http_connections 1\n")
    });
    assert!(client.answer().is_err());
    // One that reads gets it all.
    let answer = Client::once(
        server.address,
        &Request::call(2, "read_file_in_skill", arguments),
    );
    assert_eq!(answer.text().len(), 8 << 20);
}

#[test]
fn what_comes_too_many_is_told_to_come_again() {
    let options = limited(|limits| {
        limits.requests = 1;
        limits.connections = 3;
    });
    let (server, _folders) = serve_guests(options);
    let mut working = Client::connect(server.address);
    working.send(&wait_for_ever(1).bytes());
    // Asked of the host: a connection that has just closed may still count.
    until("no call runs", || server.host.occupancy().running == 1);
    // A request more: refused, the connection goes on, and health is answered.
    let mut second = Client::connect(server.address);
    for _ in 0..2 {
        let answer = second.ask(&read(2));
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (503, Some("1"))
        );
    }
    assert_eq!(second.ask(&Request::get("/healthz")).status, 200);
    // A connection more, where all others are at work.
    let listen = Request::get("/mcp").with("Accept", "text/event-stream");
    let mut listening = Client::connect(server.address);
    for client in [&mut second, &mut listening] {
        client.send(&listen.bytes());
        assert!(client.head().unwrap().starts_with("HTTP/1.1 200 "));
    }
    let answer = Client::once(server.address, &Request::get("/readyz"));
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("1"))
    );
    // Room again.
    drop((working, listening));
    until("still busy", || {
        Client::once(server.address, &read(2)).status == 200
    });
}

#[test]
fn listeners_leave_room_for_calls_and_are_told_of_the_end() {
    let server = serve(limited(|limits| {
        limits.requests = 1;
        limits.streams = 1;
        limits.request_time = Duration::from_millis(300);
    }));
    let params = json!({"_meta": meta(), "notifications": {"toolsListChanged": true}});
    let asked =
        json!({"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": params});
    let listen = Request::post(asked.to_string())
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "subscriptions/listen");
    let mut listening = Client::connect(server.address);
    listening.send(&listen.bytes());
    let head = listening.head().unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"),
        "{head}"
    );
    let mut event = move |expected: &str| {
        let chunk = listening.chunk().unwrap();
        let text = chunk.map(|bytes| String::from_utf8(bytes).unwrap());
        let text = text.unwrap_or_default();
        assert!(text.contains(expected), "{expected}: {text}");
    };
    event("notifications/subscriptions/acknowledged");
    // Longer than a call may take.
    thread::sleep(Duration::from_millis(400));
    assert_eq!(Client::once(server.address, &read(1)).status, 200);
    assert_eq!(Client::once(server.address, &listen).status, 503);
    server.shutdown.ask();
    event("\"resultType\":\"complete\"");
    event("");
    assert_eq!(server.wait(), 0);
}

#[test]
fn a_request_that_takes_too_long_is_answered_and_its_call_stopped() {
    let options = limited(|limits| limits.request_time = Duration::from_millis(200));
    let (server, _folders) = serve_guests(options);
    let host = &server.host;
    let mut client = Client::connect(server.address);
    assert_eq!(client.ask(&wait_for_ever(1)).status, 504);
    until("the guest goes on", || host.occupancy().running == 0);
    assert_eq!(client.ask(&Request::get("/healthz")).status, 200);
}

#[test]
fn a_client_that_disconnects_stops_its_call_within_100_ms() {
    let (server, _folders) = serve_guests(Options::default());
    let host = &server.host;
    let arguments = json!({"skill_name": "a", "path": "p"});
    for tool in ["raw_sleep", "raw_loop"] {
        let request = Request::call(1, tool, arguments.clone()).bytes();
        for sent in [
            request.clone(),
            Request::call_2026(1, tool, arguments.clone()).bytes(),
            // What stands behind the request hides its client's end from nobody.
            [&*request, b"\r\n"].concat(),
            request.repeat(3),
        ] {
            let mut client = Client::connect(server.address);
            client.send(&sent);
            until("no call runs", || host.occupancy().memory > 0);
            drop(client);
            let took = until("the guest goes on", || host.occupancy().running == 0);
            assert!(took < Duration::from_millis(100), "{tool}: {took:?}");
            assert_eq!(host.occupancy().memory, 0);
        }
    }
}

#[test]
fn a_client_with_a_session_is_told_of_changes() {
    let (server, folders) = serve_guests(limited(|limits| limits.streams = 1));
    let listen = Request::get("/mcp").with("Accept", "text/event-stream");
    let mut listening = Client::connect(server.address);
    listening.send(&listen.bytes());
    let head = listening.head().unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"),
        "{head}"
    );
    assert_eq!(Client::once(server.address, &listen).status, 503);
    folders.write(
        "b/SKILL.md",
        "---\nname: b\ndescription: Another.\n---\n# B\n",
    );
    let mut seen = String::new();
    while !seen.contains("notifications/tools/list_changed") {
        let chunk = listening.chunk().unwrap().unwrap();
        seen.push_str(str::from_utf8(&chunk).unwrap());
    }
    for event in seen.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let message: Value = serde_json::from_str(event).unwrap();
        assert_eq!(message["jsonrpc"], "2.0");
    }
    server.shutdown.ask();
    while listening.chunk().unwrap().is_some() {}
    assert_eq!(server.wait(), 0);
}

#[test]
fn a_client_with_a_session_cancels_its_own_call_and_no_other() {
    let (server, _folders) = serve_guests(Options::default());
    let host = &server.host;
    let label = || {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = Client::once(server.address, &Request::post(hello.to_string()));
        answer.header("mcp-session-id").unwrap().to_owned()
    };
    let (own, other) = (label(), label());
    assert_ne!(own, other);
    assert!(own.len() == 32 && own.is_ascii(), "{own}");
    let cancel = |label: &str, id: Value| {
        let params = json!({"requestId": id});
        let method = "notifications/cancelled";
        let cancel = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let request = Request::post(cancel.to_string()).with("Mcp-Session-Id", label);
        assert_eq!(Client::once(server.address, &request).status, 202);
    };
    // Without progress and with it, which is a stream.
    for token in [Value::Null, json!("p")] {
        let arguments = json!({"skill_name": "a", "path": "p"});
        let mut params = json!({"name": "raw_sleep", "arguments": arguments});
        if !token.is_null() {
            params["_meta"] = json!({"progressToken": token});
        }
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let call = Request::post(call.to_string()).with("Mcp-Session-Id", &own);
        let mut client = Client::connect(server.address);
        client.send(&call.bytes());
        until("no call runs", || host.occupancy().running == 1);
        for (label, id) in [
            (&*other, json!(1)),
            (&own, json!(2)),
            (&own, json!("1")),
            ("", json!(1)),
        ] {
            cancel(label, id);
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(host.occupancy().running, 1);
        cancel(&own, json!(1));
        let took = until("the guest goes on", || host.occupancy().running == 0);
        assert!(took < Duration::from_millis(100), "{took:?}");
        let answer = client.answer().unwrap();
        assert_eq!(
            (answer.status, answer.body.contains("result")),
            (200, false),
            "{answer:?}"
        );
        // The connection goes on, and the id may be used again.
        let answer = client.ask(&Request::call(1, "read_skill", json!({"skill_name": "a"})));
        assert_eq!(answer.text(), "# A\n");
    }
}

#[test]
fn the_end_waits_for_calls_in_flight_and_takes_no_more() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let limits = {
        let mut limits = skillhost::Limits::default();
        limits.time = Duration::from_millis(600);
        limits
    };
    let grant = skillhost::Grant::new()
        .limits(limits)
        .skills(["*"])
        .unwrap();
    let builder = builder_with_guests().skills(&folders.root);
    let server = Serving::start(builder.grant("unchecked.wasm", grant), Options::default());
    let host = &server.host;
    let mut idle = Client::connect(server.address);
    assert_eq!(idle.ask(&Request::get("/metrics")).status, 200);
    let mut working = Client::connect(server.address);
    working.send(&wait_for_ever(1).bytes());
    until("no call runs", || host.occupancy().running == 1);
    server.shutdown.ask();
    assert!(idle.is_closed(), "an idle connection is closed at once");
    until("still listening", || {
        std::net::TcpStream::connect(server.address).is_err()
    });
    // The call comes to its own end, and its answer arrives.
    let answer = working.answer().unwrap();
    assert!(answer.text().contains("600ms"), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(working.is_closed());
    assert_eq!(server.wait(), 0);
}

#[test]
fn the_end_comes_though_a_call_does_not() {
    for hurried in [false, true] {
        let time = Duration::from_millis(if hurried { 60_000 } else { 200 });
        let (server, _folders) = serve_guests(limited(|limits| limits.shutdown_time = time));
        let host = server.host.clone();
        let mut client = Client::connect(server.address);
        client.send(&wait_for_ever(1).bytes());
        until("no call runs", || host.occupancy().running == 1);
        let start = Instant::now();
        server.shutdown.ask();
        if hurried {
            server.shutdown.ask();
        }
        assert_eq!(server.wait(), 1);
        assert!(start.elapsed() < Duration::from_secs(5), "{hurried}");
        assert_eq!(client.answer().unwrap().status, 503);
        assert!(client.is_closed());
        until("the guest goes on", || host.occupancy().running == 0);
    }
}

#[test]
fn metrics_count_calls_and_requests_and_nothing_that_a_peer_makes_up() {
    let (server, _folders) = serve_guests(Options::default());
    let mut client = Client::connect(server.address);
    let read = |path: &str| json!({"skill_name": "a", "file_path": path});
    let calls = [
        ("read_file_in_skill", read("SKILL.md")),
        ("read_file_in_skill", read("SKILL.md")),
        ("read_file_in_skill", read("none")),
        ("made_up_1", json!({})),
        ("made\"up\n2", json!({})),
        ("raw_panic", json!({"skill_name": "a", "path": "p"})),
    ];
    for (id, (tool, arguments)) in (1..).zip(calls) {
        assert_eq!(client.ask(&Request::call(id, tool, arguments)).status, 200);
    }
    for id in 0..20 {
        assert_eq!(
            client.ask(&Request::get(&format!("/made-up-{id}"))).status,
            404
        );
    }
    let answer = client.ask(&Request::get("/metrics"));
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some(media_type))
    );
    let shown = answer.body;
    for line in [
        r#"skillhost_calls_total{tool="read_file_in_skill",outcome="output",reason=""} 2"#,
        r#"skillhost_calls_total{tool="read_file_in_skill",outcome="failed",reason="not-found"} 1"#,
        r#"skillhost_calls_total{tool="(none)",outcome="refused",reason="unknown-tool"} 2"#,
        r#"skillhost_calls_total{tool="raw_panic",outcome="stopped",reason="trap"} 1"#,
        r#"skillhost_call_duration_seconds_count{tool="read_file_in_skill"} 3"#,
        "skillhost_call_memory_bytes_count 4",
        "skillhost_calls_running 0",
        "skillhost_calls_waiting 0",
        "skillhost_sandbox_memory_bytes 0",
        r#"skillhost_http_requests_total{endpoint="mcp",status="200"} 6"#,
        r#"skillhost_http_requests_total{endpoint="other",status="404"} 20"#,
        "skillhost_http_connections 1",
        "# EOF",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(!shown.contains("made"), "{shown}");
}

#[test]
fn a_server_that_others_can_reach_takes_a_token_and_its_names() {
    let bind = |address: &str, options: Options| {
        let address: SocketAddr = address.parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let bound = runtime.block_on(Server::bind(address, options));
        bound.map(drop).map_err(|error| format!("{error:#}"))
    };
    let token = || Token::new(TOKEN).ok();
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error = bind(open, Options::default()).unwrap_err();
        assert!(
            error.contains("token_file") && error.contains(open),
            "{error}"
        );
    }
    let error = bind("0.0.0.0:0", options(|options| options.token = token())).unwrap_err();
    assert!(error.contains("allowed_hosts"), "{error}");
    bind("127.0.0.1:0", Options::default()).unwrap();
    bind("127.0.0.1:0", options(|options| options.token = token())).unwrap();
    let wrong = options(|options| options.allowed_origins = vec!["*".into()]);
    let error = bind("127.0.0.1:0", wrong).unwrap_err();
    assert!(error.contains("`*`"), "{error}");
}

#[test]
fn a_token_file_is_its_owners_alone() {
    use std::fs;

    let folders = Folders::new();
    let file = folders.outside.join("token");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    for (allowed, bits) in [
        (true, 0o600),
        (true, 0o400),
        (false, 0o640),
        (false, 0o604),
        (false, 0o620),
    ] {
        mode(bits);
        assert_eq!(Token::read(&file).is_ok(), allowed, "{bits:o}");
    }
    mode(0o600);
    fs::write(&file, "short").unwrap();
    let error = Token::read(&file).unwrap_err();
    assert!(format!("{error:#}").contains("16"), "{error:#}");
    fs::write(&file, [b'x'; 1 << 20]).unwrap();
    assert!(Token::read(&file).is_err());
    let fifo = folders.outside.join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    for path in [
        &fifo,
        &folders.outside,
        &folders.outside.join("none"),
        Path::new("/dev/zero"),
    ] {
        assert!(Token::read(path).is_err(), "{path:?}");
    }
}

/// The program, serving over HTTP. Killed when this is dropped.
struct Started {
    child: Child,
    address: SocketAddr,
}

impl Started {
    fn new(program: &Program, arguments: &[&str], token: Option<&str>) -> Self {
        let mut command =
            program.command(&[&["serve", "--http", "127.0.0.1:0"], arguments].concat());
        if let Some(token) = token {
            command.env("SKILLHOST_HTTP_TOKEN", token);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line
            .strip_prefix("http://")
            .unwrap()
            .strip_suffix("/mcp\n")
            .unwrap();
        Self {
            address: address.parse().unwrap(),
            child,
        }
    }

    fn signal(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    }

    fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_program_serves_until_it_is_told_to_end() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("token", TOKEN);
    let token = program.folder.path().join("token");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    program.write(
        "skillhost.toml",
        "[http]\ntoken_file = \"token\"\nbody = 1000\n",
    );
    let configured = Started::new(
        &program,
        &["--config", "skillhost.toml", "--allow-host", "h.example"],
        None,
    );
    let own = ["--config", "empty.toml", "--skills", "skills"];
    program.write("empty.toml", "");
    let environment = Started::new(&program, &own, Some(TOKEN));
    let option = Started::new(
        &program,
        &[&own[..], &["--token-file", "token"]].concat(),
        None,
    );
    let read = Request::call(1, "read_skill", json!({"skill_name": "a"}));
    for mut server in [configured, environment, option] {
        let address = server.address;
        until("not ready", || {
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
    let configured = Started::new(
        &program,
        &["--config", "skillhost.toml", "--allow-host", "h.example"],
        None,
    );
    let named = Request::get("/metrics").with("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(
        Client::once(configured.address, &named.with("Host", "h.example")).status,
        200
    );
    let large = read
        .with("Content-Length", "1001")
        .with("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(Client::once(configured.address, &large).status, 413);
}

#[test]
fn a_component_that_is_not_served_is_counted() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("tools/bad.wasm", "text");
    program.write("skillhost.toml", "tools = [\"tools\"]\n");
    let server = Started::new(&program, &["--config", "skillhost.toml"], None);
    until("not ready", || {
        Client::once(server.address, &Request::get("/readyz")).status == 200
    });
    let shown = Client::once(server.address, &Request::get("/metrics")).body;
    assert!(
        shown.contains("\nskillhost_components_refused 1\n"),
        "{shown}"
    );
}

#[test]
fn the_program_refuses_to_serve_others_without_a_token() {
    let program = Program::new();
    program.write("open", TOKEN);
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
            serve("127.0.0.1:0", &["--token-file", "open"], None),
            4,
            "0600",
        ),
        (
            serve("127.0.0.1:0", &["--token-file", "open"], Some(TOKEN)),
            4,
            "which",
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
        (program.run(&["serve", "--token-file", "open"]), 2, "--http"),
    ];
    for (run, code, said) in cases {
        assert_eq!((run.code, &*run.stdout), (code, ""), "{}", run.stderr);
        assert!(
            run.stderr.contains(said) && !run.stderr.contains(TOKEN),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn the_page_about_serving_gives_the_defaults_and_every_metric() {
    let page = std::fs::read_to_string(repository().join("docs/serving.md")).unwrap();
    let block = page.split("```toml\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    let config = Config::parse(block, "docs/serving.md", Path::new("/")).unwrap();
    assert_eq!(config.http.limits, HttpLimits::default());
    assert_eq!(block.matches('=').count(), 10, "every limit has its line");
    let server = serve(Options::default());
    let mut client = Client::connect(server.address);
    client.ask(&read(1));
    let shown = client.ask(&Request::get("/metrics")).body;
    let types = shown
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    for metric in types.map(|line| line.split_once(' ').unwrap()) {
        let name = match metric {
            (name, "counter") => format!("`{name}_total`"),
            (name, _) => format!("`{name}`"),
        };
        assert!(page.contains(&name), "{name}");
    }
}

/// Connections that call at once.
const CLIENTS: u64 = 50;

#[test]
fn fifty_clients_and_ten_thousand_calls_leave_nothing_behind() {
    // Memory and descriptors are a process's.
    if !is_again() {
        again(
            "http::fifty_clients_and_ten_thousand_calls_leave_nothing_behind",
            "",
        );
        return;
    }
    let token = Token::new(TOKEN).unwrap();
    let server = serve(options(|options| options.token = Some(token)));
    let files = ["examples/basic.py", "config.json", "SKILL.md", "none"];
    let expected = files.map(|path| {
        let arguments = json!({"skill_name": "calculator", "file_path": path});
        model_text(&server.host, "read_file_in_skill", arguments)
    });
    let bearer = format!("Bearer {TOKEN}");
    let call_all = |calls: u64| {
        let client = |number: u64| {
            let mut connection = Client::connect(server.address);
            for call in 0..calls {
                let id = number * calls + call;
                let which = usize::try_from(id).unwrap() % files.len();
                let arguments = json!({"skill_name": "calculator", "file_path": files[which]});
                let request = Request::call(id, "read_file_in_skill", arguments);
                let answer = connection.ask(&request.with("Authorization", &bearer));
                assert_eq!(answer.json()["id"], id);
                assert_eq!(answer.text(), expected[which]);
            }
        };
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                scope.spawn(move || client(number));
            }
        });
    };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    // What is made once is made now.
    call_all(20);
    let memory = resident();
    let start = Instant::now();
    call_all(10_000 / CLIENTS);
    let took = start.elapsed();
    until("a descriptor is left", || descriptors() == before);
    let grown = resident().saturating_sub(memory);
    println!("10,000 calls in {took:?}; {memory} bytes resident before, {grown} more after");
    assert!(grown < 16 << 20, "{grown} bytes more");
    let shown = Request::get("/metrics").with("Authorization", &bearer);
    let shown = Client::once(server.address, &shown).body;
    let counted = "skillhost_call_duration_seconds_count{tool=\"read_file_in_skill\"} 11004\n";
    assert!(shown.contains(counted), "{shown}");
}

/// Bytes of memory that this process has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: usize = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kilobytes << 10
}
