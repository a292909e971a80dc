//! Limits on the size of bodies, on time, and on the numbers of requests and connections.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost_server::{HttpLimits, HttpOptions, Token};

use super::{TOKEN, endless_call, options, serve, serve_guests, short_call, with_limits};
use crate::support::folders::Folders;
use crate::support::http::{Client, Request, TestServer, meta};
use crate::support::watchdog::wait_until;
use crate::support::{UNREACHED, builder_with_guests, limits};

#[test]
fn refuses_too_large_body_in_every_encoding() {
    let server = serve(with_limits(|limits| limits.body = 1000));
    let mut client = Client::connect(server.address);
    // A body with a length is refused before the client sends any of it.
    let announced = Request::post(Vec::new()).with("Content-Length", "1001");
    client.send(&announced.bytes());
    let answer = client.answer().unwrap();
    assert_eq!(
        (answer.status, answer.header("connection")),
        (413, Some("close"))
    );
    assert!(client.is_closed());
    // A body in chunks has no length.
    let mut client = Client::connect(server.address);
    let chunked = Request::post(Vec::new()).without("Content-Length");
    client.send(&chunked.with("Transfer-Encoding", "chunked").bytes());
    for _ in 0..4 {
        let chunk = format!("100\r\n{}\r\n", "x".repeat(256));
        let _ = client.try_send(chunk.as_bytes());
    }
    assert_eq!(client.answer().unwrap().status, 413);
    assert!(client.is_closed());
    // A body that fits.
    let mut body = short_call(1).body;
    body.resize(1000, b' ');
    assert_eq!(
        Client::once(server.address, &Request::post(body)).status,
        200
    );
}

#[test]
fn refuses_endless_size_of_chunk() {
    let server = serve(HttpOptions::default());
    let request = short_call(1)
        .without("Content-Length")
        .with("Transfer-Encoding", "chunked");
    let head = Request {
        body: Vec::new(),
        ..request
    };
    let mut client = Client::connect(server.address);
    // The server may close the connection before it has read everything.
    let _ = client.try_send(&[&head.bytes()[..], &[b'0'; 512 << 10]].concat());
    match client.answer() {
        Ok(answer) => assert_eq!(answer.status, 400),
        Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock),
    }
}

#[test]
fn refuses_body_of_too_many_tiny_chunks() {
    let server = serve(HttpOptions::default());
    let body = short_call(1).body;
    let chunked = |size: usize, body: &[u8]| {
        let request = short_call(1).without("Content-Length");
        let mut bytes = Request {
            body: Vec::new(),
            ..request.with("Transfer-Encoding", "chunked")
        }
        .bytes();
        for chunk in body.chunks(size) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
            bytes.extend([chunk, b"\r\n"].concat());
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    };
    let padded = |length: usize| {
        let mut body = body.clone();
        body.resize(length, b' ');
        body
    };
    for (size, length, status) in [(1, 10_000, 200), (1, 20_000, 413), (500, 1_000_000, 200)] {
        let mut client = Client::connect(server.address);
        // The server may close the connection before the end.
        let _ = client.try_send(&chunked(size, &padded(length)));
        assert_eq!(client.answer().unwrap().status, status, "{size} {length}");
    }
}

#[test]
fn peer_that_stalls_is_disconnected() {
    let server = serve(with_limits(|limits| {
        limits.header_time = Duration::from_millis(200);
        limits.body_time = Duration::from_millis(200);
    }));
    let whole = short_call(1).bytes();
    let body_at = whole
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap()
        + 4;
    // The peer sends nothing, a part of the headers, or a part of the body.
    for (sent, status) in [(0, None), (20, None), (body_at + 5, Some(408))] {
        let mut client = Client::connect(server.address);
        client.send(&whole[..sent]);
        if let Some(status) = status {
            assert_eq!(client.answer().unwrap().status, status);
        }
        assert!(client.is_closed(), "{sent}");
    }
    // The time limit is for all headers together, so it also ends a peer that sends byte by byte.
    let mut client = Client::connect(server.address);
    let sent = whole[..body_at].iter().take_while(|byte| {
        thread::sleep(Duration::from_millis(20));
        client.try_send(&[**byte]).is_ok()
    });
    assert!(sent.count() < body_at);
    // A connection that is idle after a request is closed, too.
    let mut client = Client::connect(server.address);
    assert_eq!(client.ask(&short_call(1)).status, 200);
    assert!(client.is_closed());
}

#[test]
fn peer_that_does_not_read_is_disconnected() {
    let options = with_limits(|limits| limits.write_time = Duration::from_millis(300));
    let (server, folders) = serve_guests(options);
    folders.write("a/large.txt", "x".repeat(8 << 20));
    let mut client = Client::connect(server.address);
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    client.send(&Request::call(1, "read_file_in_skill", arguments.clone()).bytes());
    // The client reads nothing until the server disconnects it, before the default time limit.
    let metrics = || Client::once(server.address, &Request::get("/metrics")).body;
    let start = Instant::now();
    wait_until("still connected", || {
        metrics().contains("skillhost_http_connections 1\n")
    });
    assert!(start.elapsed() < HttpLimits::default().write_time);
    assert!(client.answer().is_err());
    // A client that reads gets everything.
    let answer = Client::once(
        server.address,
        &Request::call(2, "read_file_in_skill", arguments),
    );
    assert_eq!(answer.text().len(), 8 << 20);
}

#[test]
fn requests_and_connections_past_the_bound_get_503() {
    let options = with_limits(|limits| {
        limits.requests = 1;
        limits.connections = 3;
    });
    let (server, _folders) = serve_guests(options);
    let mut working = Client::connect(server.address);
    working.send(&endless_call(1).bytes());
    // Asks the host, not the server: a connection for the question would count among the three, and
    // may do so for a moment after it has closed.
    wait_until("no call runs", || server.host.occupancy().running == 1);
    // One more request is refused; the connection stays open for probes.
    let mut second = Client::connect(server.address);
    for _ in 0..2 {
        let answer = second.ask(&short_call(2));
        assert_eq!(
            (answer.status, answer.header("retry-after")),
            (503, Some("1"))
        );
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains("no more of `requests` in"), "{message}");
    }
    assert_eq!(second.ask(&Request::get("/healthz")).status, 200);
    // One more connection is refused while all others are busy.
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
    let named = answer.body.contains("no more of `connections` in");
    assert!(named, "{}", answer.body);
    // The slots are free again.
    drop((working, listening));
    wait_until("still busy", || {
        Client::once(server.address, &short_call(2)).status == 200
    });
}

#[test]
fn connections_of_one_peer_get_no_refusal_by_default() {
    const CONNECTIONS: usize = 200;
    let token = options(|options| options.token = Some(Token::new(TOKEN).unwrap()));
    let proxy = options(|options| options.trusted_proxies.push("127.0.0.1".into()));
    for options in [HttpOptions::default(), token, proxy] {
        let (server, _folders) = serve_guests(options);
        let bearer = format!("Bearer {TOKEN}");
        let connect = |id: usize| {
            let mut client = Client::connect(server.address);
            let request = endless_call(id as u64).with("Authorization", &bearer);
            client.send(&request.bytes());
            client
        };
        let working: Vec<_> = (1..CONNECTIONS).map(connect).collect();
        wait_until("some call does not wait", || {
            let occupancy = server.host.occupancy();
            occupancy.running + occupancy.waiting == working.len()
        });
        let call = Request::call(0, "read_skill", json!({"skill_name": "a"}));
        let call = call.with("Authorization", &bearer);
        assert_eq!(Client::once(server.address, &call).text(), "# A\n");
    }
}

#[test]
fn requests_share_the_bytes_of_bodies() {
    let server = serve(with_limits(|limits| limits.bodies = 1 << 20));
    let padded = |length: usize| {
        let mut body = short_call(1).body;
        body.resize(length, b' ');
        Request::post(body)
    };
    let refused = |request: &Request| {
        let answer = Client::once(server.address, request);
        let text = answer.json()["error"]["message"].to_string();
        let is_named = text.contains("no more of `bodies` in");
        assert_eq!(answer.status == 503, is_named, "{} {text}", answer.status);
        is_named
    };
    // Peers without a token can use three quarters of the limit. A complete body counts as four
    // times its size.
    assert!(!refused(&padded(175_000)) && refused(&padded(200_000)));
    // Parsed values count too.
    let values = json!({"skill_name": "calculator", "file_path": vec![0; 2_000]});
    assert!(refused(&Request::call(1, "read_file_in_skill", values)));
    // This peer leaves its body incomplete. The server may refuse it at first, because the request
    // before can hold its bytes for a moment after its answer.
    let bytes = padded(700_000).bytes();
    let mut sending = None;
    wait_until("the body takes no bytes", || {
        let client = sending.insert(Client::connect(server.address));
        let _ = client.try_send(&bytes[..bytes.len() - 1]);
        refused(&padded(175_000))
    });
    assert!(!refused(&padded(1_000)));
    drop(sending);
    wait_until("the bytes are still taken", || !refused(&padded(175_000)));
}

#[test]
fn subscriptions_leave_request_slots_to_calls() {
    let (server, _folders) = serve_guests(with_limits(|limits| {
        limits.requests = 1;
        limits.streams = 1;
        limits.request_time = Duration::from_secs(1);
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
    let mut expect_event = move |expected: &str| {
        let chunk = listening.chunk().unwrap();
        let text = chunk.map(|bytes| String::from_utf8(bytes).unwrap());
        let text = text.unwrap_or_default();
        assert!(text.contains(expected), "{expected}: {text}");
    };
    expect_event("notifications/subscriptions/acknowledged");
    // The stream lasts longer than a call may take.
    assert_eq!(Client::once(server.address, &endless_call(1)).status, 504);
    let read_skill = Request::call(2, "read_skill", json!({"skill_name": "a"}));
    wait_until("the slot is still taken", || {
        Client::once(server.address, &read_skill).status == 200
    });
    assert_eq!(Client::once(server.address, &listen).status, 503);
    server.shutdown.request();
    expect_event("\"resultType\":\"complete\"");
    expect_event("");
    assert_eq!(server.wait(), 0);
}

#[test]
fn slow_request_gets_504_and_stops() {
    let options = with_limits(|limits| limits.request_time = Duration::from_millis(200));
    let (server, _folders) = serve_guests(options);
    let host = &server.host;
    let mut client = Client::connect(server.address);
    assert_eq!(client.ask(&endless_call(1)).status, 504);
    wait_until("the guest did not stop", || host.occupancy().running == 0);
    assert_eq!(client.ask(&Request::get("/healthz")).status, 200);
}

#[test]
fn disconnecting_client_stops_its_call() {
    let options = with_limits(|limits| limits.request_time = UNREACHED);
    let (server, _folders) = serve_guests(options);
    let host = &server.host;
    let arguments = json!({"skill_name": "a", "path": "p"});
    for tool in ["raw_sleep", "raw_loop"] {
        let request = Request::call(1, tool, arguments.clone()).bytes();
        for sent in [
            request.clone(),
            Request::call_2026(1, tool, arguments.clone()).bytes(),
            // Bytes after the request do not hide that the client is gone.
            [&*request, b"\r\n"].concat(),
            request.repeat(3),
        ] {
            let mut client = Client::connect(server.address);
            client.send(&sent);
            wait_until("no call runs", || host.occupancy().memory > 0);
            drop(client);
            wait_until("the guest did not stop", || host.occupancy().running == 0);
            assert_eq!(host.occupancy().memory, 0);
        }
    }
}

#[test]
fn gone_half_closed_peer_stops_its_call() {
    let (server, _folders) = serve_guests(HttpOptions::default());
    let host = &server.host;
    let mut old = endless_call(1);
    old.line = old.line.replace("HTTP/1.1", "HTTP/1.0");
    for (request, is_old) in [(endless_call(1), false), (old, true)] {
        let mut client = Client::connect(server.address);
        client.send(&request.bytes());
        wait_until("no call runs", || host.occupancy().memory > 0);
        client.close_sending();
        // By interim responses, the server asks whether a half-closed peer still reads. It cannot
        // ask a peer with HTTP/1.0, which counts as gone at once.
        if !is_old {
            assert_eq!(client.answer().unwrap().status, 100);
            drop(client);
        }
        wait_until("the guest did not stop", || host.occupancy().running == 0);
    }
}

#[test]
fn answers_peers_that_closed_their_sending_side() {
    let grant = skillhost::Grant::new().limits(limits(Duration::from_millis(300)));
    let grant = grant.skills(["*"]).unwrap();
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let builder = builder_with_guests().skills(&folders.root);
    let builder = builder.grant("unchecked.wasm", grant);
    let server = TestServer::start(builder, HttpOptions::default());
    let call = |id, tool| Request::call(id, tool, json!({"skill_name": "a", "path": "p"}));
    let read_skill = |id| Request::call(id, "read_skill", json!({"skill_name": "a"}));
    for (requests, expected) in [
        (vec![read_skill(1)], vec!["# A"]),
        // The answer comes long after the peer's last byte.
        (vec![call(1, "raw_sleep")], vec!["300ms"]),
        (
            vec![call(1, "raw_sleep"), read_skill(2)],
            vec!["300ms", "# A"],
        ),
    ] {
        let mut client = Client::connect(server.address);
        for request in &requests {
            client.send(&request.bytes());
        }
        client.close_sending();
        for text in &expected {
            let mut answer = client.answer().unwrap();
            while answer.status == 100 {
                answer = client.answer().unwrap();
            }
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(answer.text().contains(text), "{answer:?}");
        }
        assert!(client.is_closed());
    }
    // During a stream, the server cannot ask whether a half-closed peer still reads, so the peer
    // counts as gone.
    let listen = Request::get("/mcp").with("Accept", "text/event-stream");
    let mut client = Client::connect(server.address);
    client.send(&listen.bytes());
    assert!(client.head().unwrap().starts_with("HTTP/1.1 200 "));
    client.close_sending();
    client.wait_until_end();
}

#[test]
fn busy_server_answers_before_reading_body() {
    let options = with_limits(|limits| {
        limits.requests = 1;
        limits.body_time = Duration::from_secs(2);
    });
    let (server, _folders) = serve_guests(options);
    let mut working = Client::connect(server.address);
    working.send(&endless_call(1).bytes());
    wait_until("no call runs", || server.host.occupancy().running == 1);
    let mut sending = Client::connect(server.address);
    let announced = Request::post(Vec::new()).with("Content-Length", "1000");
    sending.send(&announced.bytes());
    // The server answers before any byte of the body has arrived.
    assert_eq!(sending.answer().unwrap().status, 503);
}

#[test]
fn call_with_progress_ends_in_time() {
    // The first report of progress, after a second, begins the answer. The time limit of the answer
    // starts there.
    let options = with_limits(|limits| limits.request_time = Duration::from_millis(1600));
    let (server, _folders) = serve_guests(options);
    let params = json!({
        "name": "raw_sleep",
        "arguments": {"skill_name": "a", "path": "p"},
        "_meta": {"progressToken": "p"},
    });
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut client = Client::connect(server.address);
    client.send(&Request::post(call.to_string()).bytes());
    let head = client.head().unwrap();
    assert!(head.contains("text/event-stream"), "{head}");
    let mut seen = String::new();
    while let Ok(Some(chunk)) = client.chunk() {
        seen.push_str(str::from_utf8(&chunk).unwrap());
    }
    // If its own limit had ended the call, the answer would have a result.
    assert!(
        seen.contains("notifications/progress") && !seen.contains("\"result\""),
        "{seen}"
    );
    wait_until("the guest did not stop", || {
        server.host.occupancy().running == 0
    });
}

#[test]
fn closes_refused_connections_that_do_not_read() {
    let server = serve(with_limits(|limits| limits.connections = 3));
    let listen = Request::get("/mcp").with("Accept", "text/event-stream");
    let _protected = [(); 3].map(|()| {
        let mut client = Client::connect(server.address);
        client.send(&listen.bytes());
        assert!(client.head().unwrap().starts_with("HTTP/1.1 200 "));
        client
    });
    // Only 64 refused connections can get an answer at a time. These read nothing and stay open.
    let _silent: Vec<_> = (0..64).map(|_| Client::connect(server.address)).collect();
    let gets_refusal = || {
        let mut client = Client::connect(server.address);
        client.answer().is_ok_and(|answer| answer.status == 503)
    };
    wait_until("connections that read nothing stay open", gets_refusal);
}
