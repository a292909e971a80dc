//! Requests that pretend to be something else, or cost more than their size shows.

use serde_json::{Value, json};
use skillhost_server::{HttpOptions, Token};

use super::program::ServerProcess;
use super::{TOKEN, options, serve, short_call};
use crate::support::http::{Client, Request, large_subscriptions};
use crate::support::odd_json;
use crate::support::program::Program;
use crate::support::watchdog::wait_until;

#[test]
fn cross_site_request_without_origin_is_refused() {
    let server = serve(HttpOptions::default());
    let listen = Request::get("/mcp").with("Accept", "text/event-stream");
    let status = |request: &Request| {
        let mut client = Client::connect(server.address);
        client.send(&request.bytes());
        let head = client.head().unwrap();
        head.split(' ').nth(1).unwrap().to_owned()
    };
    for request in [listen, Request::get("/metrics"), short_call(1)] {
        for site in [
            "cross-site",
            "same-site",
            "Cross-Site",
            "",
            "none, cross-site",
        ] {
            let sent = request.clone().with("Sec-Fetch-Site", site);
            assert_eq!(status(&sent), "403", "{} {site}", request.line);
        }
        let mut twice = request.clone().with("Sec-Fetch-Site", "none");
        twice.headers.push(("Sec-Fetch-Site", "cross-site".into()));
        assert_eq!(status(&twice), "403", "{}", request.line);
        for site in ["same-origin", "none"] {
            let sent = request.clone().with("Sec-Fetch-Site", site);
            assert_eq!(status(&sent), "200", "{} {site}", request.line);
        }
        assert_eq!(status(&request), "200", "{}", request.line);
    }
    // A probe is answered, because its answer is of no use to a page.
    let probe = Request::get("/healthz").with("Sec-Fetch-Site", "cross-site");
    assert_eq!(status(&probe), "200");
}

#[test]
fn answers_cross_site_request_of_allowed_origin() {
    let page = "https://app.example";
    let server = serve(options(|options| {
        options.allowed_origins = vec![page.into()];
    }));
    let request = short_call(1).with("Sec-Fetch-Site", "cross-site");
    assert_eq!(Client::once(server.address, &request).status, 403);
    let request = request.with("Origin", page);
    assert_eq!(Client::once(server.address, &request).status, 200);
}

/// A request that a balancer might not see.
const SMUGGLED: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn ambiguous_framing_is_refused_or_ends_the_connection() {
    let server = serve(HttpOptions::default());
    let body = String::from_utf8(short_call(1).body).unwrap();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let all = format!("{chunked}{SMUGGLED}");
    // The framing headers, the body, the status of the first answer, and the number of answers.
    let cases: &[(&[&str], &str, u16, usize)] = &[
        (&["Transfer-Encoding: chunked"], &all, 200, 2),
        (&["Transfer-Encoding: Chunked"], &all, 200, 2),
        (&["Transfer-Encoding:\tchunked "], &all, 200, 2),
        (&["Transfer-Encoding: gzip, chunked"], &all, 400, 1),
        (&["Transfer-Encoding: identity, chunked"], &all, 400, 1),
        (&["Transfer-Encoding: chunked, chunked"], &all, 400, 1),
        (&["Transfer-Encoding: ,chunked"], &all, 400, 1),
        (
            &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
            &all,
            400,
            1,
        ),
        (
            &["Transfer-Encoding: x", "Transfer-Encoding: chunked"],
            &all,
            400,
            1,
        ),
        (
            &["Transfer-Encoding: chunked", "Transfer-Encoding: x"],
            &all,
            400,
            1,
        ),
        (&["Transfer-Encoding: gzip"], &all, 400, 1),
        (&["Transfer-Encoding: xchunked"], &all, 400, 1),
        (&["Transfer-Encoding: \"chunked\""], &all, 400, 1),
        (&["Transfer-Encoding: \x0bchunked"], &all, 400, 1),
        (&["Transfer-Encoding : chunked"], &all, 400, 1),
        (&["Transfer-Encoding:", " chunked"], &all, 400, 1),
        (
            &["Transfer-Encoding: chunked", "Content-Length: 4"],
            &all,
            200,
            1,
        ),
        (
            &["Content-Length: 4", "Transfer-Encoding: chunked"],
            &all,
            200,
            1,
        ),
        (&["Content-Length: 4", "Content-Length: 5"], &all, 400, 1),
        (&["Content-Length: +4"], &all, 400, 1),
        (&["Content-Length: 4, 4"], &all, 400, 1),
        (&["Content-Length: 0x4"], &all, 400, 1),
    ];
    for (framing, body, status, answers) in cases {
        let mut client = Client::connect(server.address);
        let framed = short_call(1).without("Content-Length");
        let mut head = format!("{}\r\n", framed.line);
        for (name, value) in &framed.headers {
            head += &format!("{name}: {value}\r\n");
        }
        for line in *framing {
            head += &format!("{line}\r\n");
        }
        client.send(format!("{head}\r\n{body}").as_bytes());
        let answer = client.answer().unwrap();
        assert_eq!(answer.status, *status, "{framing:?} {answer:?}");
        if *answers == 2 {
            assert_eq!(client.answer().unwrap().body, "ok\n", "{framing:?}");
        } else {
            assert!(client.is_closed(), "{framing:?}");
        }
    }
    let old = Request {
        line: "POST /mcp HTTP/1.0".into(),
        body: all.clone().into_bytes(),
        ..short_call(1)
            .without("Content-Length")
            .with("Transfer-Encoding", "chunked")
    };
    let mut client = Client::connect(server.address);
    assert_eq!(client.ask(&old).status, 400);
    assert!(client.is_closed());
}

#[test]
fn refusal_before_awaited_body_ends_connection() {
    let token = Token::new(TOKEN).unwrap();
    let server = serve(options(|options| options.token = Some(token)));
    let request = short_call(1);
    let head = Request {
        body: Vec::new(),
        ..request.clone().with("Expect", "100-continue")
    };
    let mut client = Client::connect(server.address);
    let answer = client.ask(&head);
    let connection = answer.header("connection");
    assert_eq!((answer.status, connection), (401, Some("close")));
    // A balancer that has the refusal could send the next request instead of the body.
    let _ = client.try_send(&request.bytes());
    assert!(client.is_closed());
}

#[test]
fn limits_ids_and_progress_tokens() {
    let server = serve(HttpOptions::default());
    let call = |id: &str, token: &str| {
        let params = json!({"_meta": {"progressToken": token}});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": params});
        let request = Request::post(body.to_string()).with("MCP-Protocol-Version", "2025-11-25");
        Client::once(server.address, &request)
    };
    let (longest, longer) = ("x".repeat(1022), "x".repeat(1023));
    let answer = call(&longest, &longest);
    assert_eq!(
        (answer.status, &answer.json()["id"]),
        (200, &json!(longest))
    );
    for (id, token, expected_id, field) in [
        (&*longer, "t", Value::Null, "`id`"),
        ("i", &*longer, json!("i"), "`progressToken`"),
        (&*longest, &*longer, json!(longest), "`progressToken`"),
    ] {
        let answer = call(id, token);
        let json = answer.json();
        assert_eq!((answer.status, &json["id"]), (400, &expected_id));
        assert_eq!(json["error"]["code"], -32600);
        let message = json["error"]["message"].as_str().unwrap();
        assert!(
            message.contains(field) && message.contains("1024"),
            "{message}"
        );
    }
}

#[test]
fn refuses_oversized_subscriptions() {
    let server = serve(HttpOptions::default());
    let method = "subscriptions/listen";
    for params in large_subscriptions() {
        let body = json!({"jsonrpc": "2.0", "id": "s", "method": method, "params": params});
        let request = Request::post(body.to_string())
            .with("MCP-Protocol-Version", "2026-07-28")
            .with("Mcp-Method", method);
        let mut connection = Client::connect(server.address);
        connection.send(&request.bytes());
        let head = connection.head().unwrap();
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        let answer = Client::once(server.address, &request).json();
        let (id, error) = (&answer["id"], &answer["error"]);
        assert_eq!(
            (id, &error["code"]),
            (&json!("s"), &json!(-32600)),
            "{answer}"
        );
        assert!(
            error["message"].as_str().unwrap().contains(method),
            "{answer}"
        );
    }
}

#[test]
fn ignores_hang_up_signal() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let mut server = ServerProcess::new(&program, &["--skills", "skills"], Some(TOKEN));
    let address = server.address;
    let probe = |path| Client::once(address, &Request::get(path)).status;
    wait_until("the server is not ready", || probe("/readyz") == 200);
    for _ in 0..3 {
        server.child.signal(rustix::process::Signal::HUP);
        assert_eq!(probe("/healthz"), 200);
    }
    server.signal();
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn answers_every_odd_json_text() {
    let server = serve(HttpOptions::default());
    let mut connection = Client::connect(server.address);
    for odd in odd_json::requests() {
        let request = Request::post(odd.text.clone()).with("MCP-Protocol-Version", "2025-11-25");
        odd.check(&connection.ask(&request).json());
    }
}
