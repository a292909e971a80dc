//! The protocol over HTTP: valid and invalid requests.

use std::time::Duration;

use serde_json::{Value, json};
use skillhost_server::HttpOptions;

use super::{serve, short_call, with_limits};
use crate::support::folders::Folders;
use crate::support::http::{Client, Request, TestServer, meta};
use crate::support::{builder_with_guests, limits};

/// Returns an `initialize` request for this version of the protocol.
fn initialize(version: &str) -> Request {
    let params = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let hello = json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params});
    Request::post(hello.to_string())
}

#[test]
fn client_initializes_and_calls_a_tool() {
    let server = serve(HttpOptions::default());
    let mut client = Client::connect(server.address);
    let answer = client.ask(&initialize("2025-11-25"));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let hello = answer.json();
    assert_eq!(hello["id"], "first");
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");

    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = client.ask(&Request::post(ready.to_string()));
    assert_eq!((answer.status, &*answer.body), (202, ""));

    let answer = client.ask(&short_call(7));
    assert_eq!((answer.status, &answer.json()["id"]), (200, &json!(7)));
    assert!(answer.text().contains("def add"), "{answer:?}");
}

#[test]
fn any_instance_answers_any_request() {
    let (one, other) = (serve(HttpOptions::default()), serve(HttpOptions::default()));
    for server in [&one, &other, &one] {
        let answer = Client::once(server.address, &short_call(1));
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
fn refuses_malformed_requests_and_continues() {
    let server = serve(with_limits(|limits| limits.body = 10_000));
    let ask = |request: &Request| Client::once(server.address, request);
    let expect_error = |body: &str, code: i64, id: Value| {
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
        expect_error(body, -32700, Value::Null);
    }
    let deep = "[".repeat(5000);
    expect_error(&deep, -32700, Value::Null);
    for body in [
        "[]",
        "1",
        "null",
        "{}",
        "{\"jsonrpc\":\"2.0\"}",
        "[{\"jsonrpc\":\"2.0\"}]",
    ] {
        expect_error(body, -32600, Value::Null);
    }
    expect_error(
        "{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"ping\"}",
        -32600,
        json!(5),
    );
    expect_error(
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":5}",
        -32600,
        json!("x"),
    );
    expect_error(
        "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}",
        -32600,
        Value::Null,
    );
    let long_ping = |id: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",{id}\"method\":\"ping\",\"a\":[{}1]}}",
            "1,".repeat(20_000)
        )
    };
    let default_server = serve(HttpOptions::default());
    for (id, expected) in [
        ("\"id\":8,", json!(8)),
        ("\"id\":[[]],", Value::Null),
        ("", Value::Null),
    ] {
        let answer = Client::once(default_server.address, &Request::post(long_ping(id)));
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
        (short_call(1).with("Content-Type", "text/plain"), 415),
        (short_call(1).without("Content-Type"), 415),
        (short_call(1).with("Accept", "text/html"), 406),
        (short_call(1).with("Accept", "*/*;q=0"), 406),
        (
            short_call(1).with("MCP-Protocol-Version", "1999-01-01"),
            400,
        ),
        (
            short_call(1).with("MCP-Protocol-Version", "2026-07-28"),
            400,
        ),
        (
            Request {
                line: "DELETE /mcp HTTP/1.1".into(),
                ..short_call(1)
            },
            405,
        ),
        (
            Request {
                line: "PUT /mcp HTTP/1.1".into(),
                ..short_call(1)
            },
            405,
        ),
        (
            Request {
                line: "OPTIONS /mcp HTTP/1.1".into(),
                ..short_call(1)
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
                ..short_call(1)
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
        if request.line.contains("/mcp ") {
            assert_eq!(answer.header("content-type"), Some("application/json"));
            let json = answer.json();
            assert_eq!(json["jsonrpc"], "2.0", "{answer:?}");
            let message = json["error"]["message"].as_str().unwrap();
            assert!(
                !message.is_empty() && !message.ends_with('\n'),
                "{message:?}"
            );
            assert!(
                json["error"]["code"].as_i64().unwrap() < -32000,
                "{answer:?}"
            );
        }
    }
    let mut client = Client::connect(server.address);
    client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is not HTTP\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 400);
    assert!(client.is_closed());
    let large_header = Request::get("/healthz").with("X-Many", &"x".repeat(100_000));
    let mut client = Client::connect(server.address);
    let _ = client.try_send(&large_header.bytes());
    assert_eq!(client.answer().map_or(431, |answer| answer.status), 431);

    assert_eq!(ask(&short_call(1)).status, 200);
}

#[test]
fn answers_with_a_content_type_that_client_accepts() {
    let server = serve(HttpOptions::default());
    let ask = |request: &Request| Client::once(server.address, request);
    let json_type = "application/json";
    for (accept, content_type) in [
        (None, json_type),
        (Some("*/*"), json_type),
        (Some("text/html, */*;q=0.1"), json_type),
        (Some("application/*"), json_type),
        (Some("application/json"), json_type),
        (Some("text/*"), "text/event-stream"),
        (Some("text/event-stream"), "text/event-stream"),
        (Some("application/json;q=0, */*"), "text/event-stream"),
    ] {
        let request = match accept {
            Some(accept) => short_call(7).with("Accept", accept),
            None => short_call(7).without("Accept"),
        };
        let answer = ask(&request);
        assert_eq!(answer.status, 200, "{accept:?}: {answer:?}");
        assert_eq!(
            answer.header("content-type"),
            Some(content_type),
            "{accept:?}"
        );
        let json = match answer.body.strip_prefix("data: ") {
            Some(event) => event.strip_suffix("\n\n").unwrap(),
            None => &answer.body,
        };
        let is_event = json != answer.body;
        assert_eq!(is_event, content_type == "text/event-stream", "{answer:?}");
        let json: Value = serde_json::from_str(json).unwrap();
        assert_eq!(json["id"], 7, "{accept:?}");
        assert!(json["result"]["content"][0]["text"].is_string(), "{json}");
        // A response that refuses a request is JSON, whatever the client accepts.
        let wrong = ask(&request.with("MCP-Protocol-Version", "1999-01-01"));
        assert_eq!((wrong.status, &wrong.json()["id"]), (400, &json!(7)));
    }
}

#[test]
fn client_that_accepts_only_json_gets_no_stream() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    // Longer than the time until the first progress report.
    let limits = limits(Duration::from_millis(1500));
    let builder = builder_with_guests().skills(&folders.root).limits(limits);
    let server = TestServer::start(builder, HttpOptions::default());
    let arguments = json!({"skill_name": "a", "path": "p"});
    let with_progress = json!({"progressToken": "p"});
    let params = json!({"name": "raw_sleep", "arguments": arguments, "_meta": with_progress});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    for (accept, expects_stream) in [("application/*", false), ("*/*", true)] {
        let call = Request::post(call.to_string()).with("Accept", accept);
        let answer = Client::once(server.address, &call);
        assert_eq!(answer.status, 200, "{accept}: {answer:?}");
        let is_stream = answer.header("content-type") == Some("text/event-stream");
        assert_eq!(is_stream, expects_stream, "{accept}: {answer:?}");
        assert_eq!(
            answer.body.contains("notifications/progress"),
            expects_stream
        );
        assert!(answer.body.contains("\"isError\":true"), "{answer:?}");
    }
    let params = json!({"notifications": {}, "_meta": meta()});
    let method = "subscriptions/listen";
    let listen = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
    let listen = Request::post(listen.to_string())
        .with("Accept", "application/json")
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", method);
    let refused = Client::once(server.address, &listen);
    assert_eq!((refused.status, &refused.json()["id"]), (406, &json!(5)));
}

#[test]
fn body_of_initialize_decides_the_version() {
    let server = serve(HttpOptions::default());
    let ask = |request: &Request| Client::once(server.address, request);
    for (body, header, negotiated) in [
        ("2025-06-18", "2025-11-25", "2025-06-18"),
        ("2025-11-25", "2025-03-26", "2025-11-25"),
        ("2025-11-25", "2026-07-28", "2025-11-25"),
        ("2025-11-25", "1999-01-01", "2025-11-25"),
        ("2031-01-01", "2025-11-25", "2025-11-25"),
    ] {
        let hello = initialize(body).with("MCP-Protocol-Version", header);
        for hello in [hello.clone(), hello.with("Mcp-Method", "initialize")] {
            let answer = ask(&hello);
            assert_eq!(answer.status, 200, "{body} {header}: {answer:?}");
            let version = answer.json()["result"]["protocolVersion"].clone();
            assert_eq!(version, negotiated, "{body} {header}");
            assert!(answer.header("mcp-session-id").is_some(), "{answer:?}");
        }
    }
    // A wrong `Mcp-Method` is refused, because a balancer may have chosen the server by it.
    let other = initialize("2025-11-25").with("MCP-Protocol-Version", "2026-07-28");
    let answer = ask(&other.with("Mcp-Method", "tools/list"));
    assert_eq!(answer.status, 400, "{answer:?}");
}

#[test]
fn unsupported_version_names_supported_ones() {
    let server = serve(HttpOptions::default());
    let ask = |request: Request| {
        let answer = Client::once(server.address, &request);
        assert_eq!(answer.status, 400, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        answer.json()
    };
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for (request, id) in [
        (short_call(7), json!(7)),
        (Request::post(notification.to_string()), Value::Null),
    ] {
        let json = ask(request.with("MCP-Protocol-Version", "1999-01-01"));
        assert_eq!((&json["id"], &json["error"]["code"]), (&id, &json!(-32022)));
        let data = &json["error"]["data"];
        assert_eq!(data["requested"], "1999-01-01");
        let supported = data["supported"].as_array().unwrap();
        for version in ["2024-11-05", "2025-11-25", "2026-07-28"] {
            assert!(supported.contains(&version.into()), "{json}");
        }
    }
}

#[test]
fn refuses_headers_that_contradict_the_body() {
    let server = serve(HttpOptions::default());
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
    // The last four are methods of older revisions.
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
