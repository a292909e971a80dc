//! The capacity that a client at full load leaves to others, the requests and bytes that count
//! towards a client's limits, and the end and content of its streams.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use skillhost_identity::IdentitySettings;
use skillhost_server::{HttpOptions, Server};

use super::{as_client, ask, call, clients, clients_with, message, serve_teams};
use crate::support::UNREACHED;
use crate::support::http::{Client, Request, TestServer, meta};
use crate::support::odd_json;
use crate::support::watchdog::wait_until;

/// Returns a request for the stream of changes.
fn stream(client: &str) -> Request {
    let request = Request::get("/mcp").with("Accept", "text/event-stream");
    as_client(request, client)
}

/// Returns a request for the stream of changes in the revision 2026-07-28.
fn subscription(client: &str) -> Request {
    let kinds = json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
    });
    let params = json!({"_meta": meta(), "notifications": kinds});
    let method = "subscriptions/listen";
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
    let request = Request::post(body.to_string())
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", method);
    as_client(request, client)
}

/// Returns the parameters of a handshake.
fn hello() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    })
}

/// Opens a connection and sends a request. Returns the connection and the status.
fn open(server: &TestServer, request: &Request) -> (Client, u16) {
    let mut connection = Client::connect(server.address);
    connection.send(&request.bytes());
    let status = connection.head().unwrap()[9..12].parse().unwrap();
    (connection, status)
}

/// Returns options for clients with these tables. All clients have names.
fn named_clients(tables: &[(&str, &str)]) -> HttpOptions {
    let mut options = clients(tables);
    options.token = None;
    options
}

fn endless_call(id: u64, client: &str) -> Request {
    let arguments = json!({"skill_name": "public-notes", "path": "p"});
    as_client(Request::call(id, "raw_sleep", arguments), client)
}

#[test]
fn each_of_many_clients_has_own_capacity() {
    let mut options = named_clients(&[("greedy", ""), ("other", ""), ("third", "")]);
    options.limits.requests = 4;
    options.limits.streams = 4;
    let (server, _folders) = serve_teams(options, |builder| builder);
    let mut connections = Vec::new();
    let mut statuses = Vec::new();
    for id in 0..4 {
        let (stream, status) = open(&server, &stream("greedy"));
        connections.push(stream);
        statuses.push(status);
        let mut connection = Client::connect(server.address);
        connection.send(&endless_call(id, "greedy").bytes());
        connections.push(connection);
    }
    assert_eq!(statuses, [200, 200, 503, 503]);
    wait_until("not all calls of the greedy client run", || {
        server.host.occupancy().running == 2
    });
    for client in ["other", "third"] {
        let (_stream, status) = open(&server, &stream(client));
        assert_eq!(status, 200, "{client}");
        let read = json!({"skill_name": "public-notes"});
        let answer = call(&server, Some(client), "read_skill", read);
        assert_eq!(answer.text(), "# meadow\n", "{client}");
    }
}

#[test]
fn refuses_limits_below_number_of_clients() {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    for key in ["requests", "streams", "connections"] {
        let check = |limit| {
            let mut options = clients(&[("one", ""), ("other", "")]);
            let limits = &mut options.limits;
            *match key {
                "requests" => &mut limits.requests,
                "streams" => &mut limits.streams,
                _ => &mut limits.connections,
            } = limit;
            Server::check(address, &options).map_err(|error| format!("{error:#}"))
        };
        // The client without a name also counts.
        assert_eq!(check(3), Ok(()), "{key}");
        let error = check(2).unwrap_err();
        let expected = format!("`{key}` in `[http]` leaves 2 to 3 clients");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn call_with_subscription_header_counts_as_call() {
    let mut options = named_clients(&[("one", "")]);
    options.limits.requests = 1;
    let (server, _folders) = serve_teams(options, |builder| builder);
    let read = json!({"skill_name": "public-notes"});
    let read = as_client(Request::call(1, "read_skill", read), "one");
    let disguised = read.with("Mcp-Method", "subscriptions/listen");
    let mut running = Client::connect(server.address);
    running.send(&endless_call(7, "one").bytes());
    wait_until("no call runs", || server.host.occupancy().running == 1);
    for (version, status) in [("2025-11-25", 503), ("2026-07-28", 400)] {
        let asked = disguised.clone().with("MCP-Protocol-Version", version);
        let answer = Client::once(server.address, &asked);
        assert_eq!(answer.status, status, "{version} {answer:?}");
    }
    let asked = disguised.clone().without("MCP-Protocol-Version");
    assert_eq!(Client::once(server.address, &asked).status, 503);
    drop(running);
    // The slot becomes free a moment after the peer has read the answer or disconnected.
    wait_until(
        "a call is still refused after the running one ended",
        || {
            let answer = Client::once(server.address, &disguised);
            answer.status == 200 && answer.text() == "# meadow\n"
        },
    );
}

#[test]
fn every_request_counts_towards_calls_per_minute() {
    let message = |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
        Request::post(body.to_string()).with("MCP-Protocol-Version", "2025-11-25")
    };
    let notification = r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#;
    let asked = [
        (message("ping", json!({})), true),
        (message("initialize", hello()), true),
        (message("resources/templates/list", json!({})), true),
        (message("no/such", json!({})), true),
        (subscription(""), true),
        (Request::post(notification), false),
        (Request::post("no message"), false),
        (stream(""), false),
        (Request::get("/metrics"), false),
    ];
    let names: Vec<String> = (0..asked.len())
        .map(|number| format!("c{number}"))
        .collect();
    let limits = "calls_per_minute = 1\nmetrics = true";
    let tables: Vec<(&str, &str)> = names.iter().map(|name| (&**name, limits)).collect();
    let (server, _folders) = serve_teams(clients(&tables), |builder| builder);
    for (name, (request, has_id)) in names.iter().zip(asked) {
        let about = format!(
            "{} {:.99}",
            request.line,
            String::from_utf8_lossy(&request.body)
        );
        let request = as_client(request, name);
        let (_first, status) = open(&server, &request);
        assert!(![429, 503].contains(&status), "{about}: {status}");
        let refused = Client::once(server.address, &request);
        if has_id {
            let answer = refused.json();
            assert_eq!(answer["error"]["code"], -32029, "{about}: {answer}");
            assert_eq!(answer["id"], 5, "{about}: {answer}");
            let wait = answer["error"]["data"]["retryAfter"].as_u64().unwrap();
            assert!((1..=60).contains(&wait), "{about}: {answer}");
        } else {
            assert_eq!(refused.status, 429, "{about}: {refused:?}");
            let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait), "{about}: {refused:?}");
        }
    }
}

#[test]
fn refused_metrics_request_counts_towards_limit() {
    let table = [("one", "calls_per_minute = 1")];
    let (server, _folders) = serve_teams(clients(&table), |builder| builder);
    let metrics = as_client(Request::get("/metrics"), "one");
    for status in [403, 429] {
        assert_eq!(Client::once(server.address, &metrics).status, status);
    }
    let ping = ask(&server, Some("one"), "ping", json!({})).json();
    assert_eq!(ping["error"]["code"], -32029, "{ping}");
}

#[test]
fn unread_body_counts_towards_bytes_per_minute() {
    let bytes = "bytes_per_minute = \"64KiB\"";
    let mut options = clients(&[("large", bytes), ("slow", bytes)]);
    options.limits.body = 100_000;
    options.limits.body_time = Duration::from_millis(500);
    let (server, _folders) = serve_teams(options, |builder| builder);
    let part = "x".repeat(90_000);
    let chunks = format!("{:x}\r\n{part}\r\n", part.len());
    let chunked = Request::post(format!("{chunks}{chunks}0\r\n\r\n"));
    let chunked = chunked.without("Content-Length");
    for (client, request, status) in [
        ("large", chunked.with("Transfer-Encoding", "chunked"), 413),
        (
            "slow",
            Request::post(part).with("Content-Length", "95000"),
            408,
        ),
    ] {
        let refused = Client::once(server.address, &as_client(request, client));
        assert_eq!(refused.status, status, "{client}: {refused:?}");
        let ping = ask(&server, Some(client), "ping", json!({})).json();
        assert_eq!(ping["error"]["code"], -32029, "{client}: {ping}");
    }
}

#[test]
fn every_answer_counts_towards_bytes_per_minute() {
    let keys = "bytes_per_minute = \"64KiB\"\nmetrics = true";
    let (server, _folders) = serve_teams(clients(&[("one", keys)]), |builder| builder);
    let metrics = as_client(Request::get("/metrics"), "one");
    let mut read = 0;
    for _ in 0..1000 {
        let answer = Client::once(server.address, &metrics);
        if answer.status == 429 {
            assert!((64 << 10..128 << 10).contains(&read), "{read}");
            return;
        }
        read += metrics.bytes().len() + answer.body.len();
    }
    panic!("{read} bytes were answered");
}

#[test]
fn invalid_body_counts_towards_bytes_per_minute() {
    let table = [("small", "bytes_per_minute = \"64KiB\"")];
    let (server, _folders) = serve_teams(clients(&table), |builder| builder);
    let send = |request: Request| {
        let mut connection = Client::connect(server.address);
        connection.ask(&as_client(request, "small"))
    };
    assert_eq!(send(Request::post("x".repeat(200_000))).status, 400);
    // A large body is refused before the client sends any of it.
    let announced = Request::post(Vec::new()).with("Content-Length", "200000");
    let refused = send(announced);
    assert_eq!(
        (refused.status, refused.header("connection")),
        (429, Some("close"))
    );
    let ping = ask(&server, Some("small"), "ping", json!({})).json();
    assert_eq!(ping["error"]["code"], -32029, "{ping}");
}

#[test]
fn headers_count_towards_bytes_per_minute() {
    let bytes = "bytes_per_minute = \"64KiB\"";
    let tables = [("line", bytes), ("names", bytes), ("values", bytes)];
    let (server, _folders) = serve_teams(clients(&tables), |builder| builder);
    // Each request has 20 kB, and each answer has a few bytes.
    let long = "x".repeat(20_000);
    let mut names = Request::get("/mcp");
    names
        .headers
        .extend([(("x-".to_owned() + &long).leak() as &str, String::new())]);
    for (client, request) in [
        ("line", Request::get(&format!("/mcp?{long}"))),
        ("names", names),
        ("values", Request::get("/mcp").with("X-Long", &long)),
    ] {
        let request = as_client(request, client);
        let statuses = [(); 5].map(|()| Client::once(server.address, &request).status);
        assert_eq!(statuses, [405, 405, 405, 405, 429], "{client}");
    }
}

#[test]
fn refused_bytes_through_proxy_count_towards_no_client() {
    let padded = || Request::get("/mcp").with("X-Long", &"x".repeat(20_000));
    let wrong_token = padded().with("Authorization", "Bearer wrong");
    let wrong_host = padded().with("Host", "other.example");
    let other_path = Request::get(&format!("/{}", "x".repeat(20_000)));
    let unidentified = [(wrong_token, 401), (wrong_host, 403), (other_path, 404)];
    // Such bytes count towards the client of the connection's next request. Through a proxy they
    // count for none, because its next request may come from another peer.
    for (proxies, is_counted) in [(vec!["127.0.0.0/8".to_owned()], false), (Vec::new(), true)] {
        let keys = "bytes_per_minute = \"32KiB\"";
        let mut options = clients(&[("one", keys), ("other", keys)]);
        options.trusted_proxies = proxies;
        let (server, _folders) = serve_teams(options, |builder| builder);
        let mut connection = Client::connect(server.address);
        for (request, status) in &unidentified {
            assert_eq!(connection.ask(request).status, *status);
        }
        let mut ping = |client| {
            let ping = message(Some(client), "ping", json!({}));
            connection.ask(&ping).json()["error"]["code"] == -32029
        };
        assert!(!ping("one"));
        assert_eq!(ping("one"), is_counted);
        // The other client's own requests always count.
        for _ in 0..2 {
            Client::once(server.address, &as_client(padded(), "other"));
        }
        assert!(ping("other"));
    }
}

#[test]
fn padding_counts_towards_bytes_per_minute() {
    let bytes = "bytes_per_minute = \"64KiB\"";
    let cases = ["spaces", "lines", "chunks", "trailers"];
    let (server, _folders) = serve_teams(clients(&cases.map(|it| (it, bytes))), |it| it);
    for client in cases {
        let get = as_client(Request::get("/mcp"), client);
        let chunked = as_client(Request::post(String::new()), client);
        let chunked = chunked.without("Content-Length");
        let chunked = chunked.with("Transfer-Encoding", "chunked").bytes();
        // Each request has 15 kB or more.
        let sent = match client {
            "spaces" => get.with("X-Spaces", &" ".repeat(15_000)).bytes(),
            "lines" => ["\r\n".repeat(7_500).as_bytes(), &get.bytes()].concat(),
            "chunks" => [
                &chunked[..],
                "1\r\nx\r\n".repeat(2_500).as_bytes(),
                b"0\r\n\r\n",
            ]
            .concat(),
            _ => {
                let trailer = format!("1\r\nx\r\n0\r\nx: {}\r\n\r\n", "x".repeat(15_000));
                [&chunked[..], trailer.as_bytes()].concat()
            }
        };
        let mut statuses = (0..7).map(|_| {
            let mut connection = Client::connect(server.address);
            connection.send(&sent);
            connection.answer().unwrap().status
        });
        let refused = statuses.position(|status| status == 429);
        assert!(refused.is_some_and(|it| it >= 3), "{client}: {refused:?}");
    }
}

#[test]
fn refuses_requests_with_odd_ids_over_budget() {
    let table = [("one", "calls_per_minute = 1")];
    let (server, _folders) = serve_teams(clients(&table), |builder| builder);
    ask(&server, Some("one"), "ping", json!({}));
    for body in odd_json::requests_with_odd_ids() {
        let asked = as_client(Request::post(body.clone()), "one");
        assert_eq!(Client::once(server.address, &asked).status, 429, "{body}");
    }
}

#[test]
fn client_over_budget_can_still_cancel() {
    let mut options = clients(&[("one", "calls_per_minute = 2")]);
    options.limits.request_time = UNREACHED;
    let (server, _folders) = serve_teams(options, |builder| builder);
    let opened = ask(&server, Some("one"), "initialize", hello());
    let session = opened.header("mcp-session-id").unwrap();
    let mut running = Client::connect(server.address);
    running.send(
        &endless_call(7, "one")
            .with("Mcp-Session-Id", session)
            .bytes(),
    );
    wait_until("no call runs", || server.host.occupancy().running == 1);
    let cancel = json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 7},
    });
    let cancel = Request::post(cancel.to_string()).with("Mcp-Session-Id", session);
    let refused = Client::once(server.address, &as_client(cancel, "one"));
    assert_eq!(refused.status, 429, "{refused:?}");
    wait_until("the call still runs", || {
        server.host.occupancy().running == 0
    });
}

#[test]
fn forced_end_refuses_unfinished_request_over_budget() {
    let mut options = clients(&[("one", "calls_per_minute = 1")]);
    options.limits.shutdown_time = Duration::from_millis(200);
    let (server, _folders) = serve_teams(options, |builder| builder);
    ask(&server, Some("one"), "ping", json!({}));
    let mut waiting = Client::connect(server.address);
    let request = message(Some("one"), "ping", json!({})).bytes();
    waiting.send(&request[..request.len() - 1]);
    server.shutdown.request();
    assert_eq!(server.wait(), 1);
    let answer = waiting.answer().unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("shutting down"), "{answer:?}");
}

#[test]
fn streams_end_when_client_expires() {
    let expires = SystemTime::now() + Duration::from_secs(3);
    let set = |settings: &mut IdentitySettings| settings.clients[0].expires = Some(expires);
    let options = clients_with(&[("brief", ""), ("other", "")], set);
    let (server, folders) = serve_teams(options, |builder| builder);
    let streams = [stream("brief"), subscription("brief"), stream("other")];
    let [old, new, mut other] = streams.map(|request| {
        let (stream, status) = open(&server, &request);
        assert_eq!(status, 200, "{}", request.line);
        stream
    });
    for mut stream in [old, new] {
        while stream.chunk().unwrap().is_some() {}
        assert!(SystemTime::now() >= expires, "a stream ended too early");
    }
    let listed = ask(&server, Some("brief"), "tools/list", json!({}));
    assert_eq!(listed.status, 401);
    // The stream of another client continues.
    folders.write("public-notes/new.md", "new\n");
    assert!(other.chunk().unwrap().is_some());
}

#[test]
fn client_with_unread_answers_leaves_bytes_to_others() {
    let mut options = named_clients(&[("greedy", ""), ("other", "")]);
    options.limits.answers = 24 << 20;
    let (server, folders) = serve_teams(options, |builder| builder);
    folders.write("public-notes/large.md", "x".repeat(6_000_000));
    folders.write("public-notes/half.md", "x".repeat(3_000_000));
    let read = |client, file| {
        let arguments = json!({"skill_name": "public-notes", "file_path": file});
        as_client(Request::call(1, "read_file_in_skill", arguments), client)
    };
    let unread: Vec<_> = (0..8)
        .map(|_| open(&server, &read("greedy", "large.md")))
        .collect();
    let count = unread.iter().filter(|(_, status)| *status == 200).count();
    // A client can use its own quarter of the bytes, and the half that all clients share.
    assert_eq!(count, 3, "answers of 6 MB each");
    for _ in 0..3 {
        let answer = Client::once(server.address, &read("other", "half.md"));
        assert_eq!(answer.status, 200, "{:.200}", answer.body);
    }
    drop(unread);
}

#[test]
fn requests_of_streams_count_as_answers_until_closed() {
    let mut options = named_clients(&[("greedy", ""), ("other", "")]);
    options.limits.answers = 1 << 20;
    let (server, _folders) = serve_teams(options, |builder| builder);
    let large = |client| {
        let mut request = subscription(client);
        let padding = " ".repeat(60_000);
        request.body.splice(0..0, padding.into_bytes());
        let length = request.body.len().to_string();
        request.with("Content-Length", &length)
    };
    let open_all = |client| {
        let streams = (0..40).map(|_| open(&server, &large(client)));
        let streams = streams.take_while(|(_, status)| *status == 200);
        streams.map(|(stream, _)| stream).collect::<Vec<_>>()
    };
    let opened = open_all("greedy");
    // Each request takes 60 kB, and memory for a few values. Together they fill the three quarters
    // of a MiB that one client may use.
    assert!((8..=13).contains(&opened.len()), "{}", opened.len());
    let (_stream, status) = open(&server, &large("other"));
    assert_eq!(status, 200);
    let count = opened.len();
    drop(opened);
    wait_until("the bytes of closed streams still count", || {
        open_all("greedy").len() >= count
    });
}

#[test]
fn client_with_scope_is_notified_of_visible_changes() {
    let tables = [("guest", "skills = [\"public-*\"]"), ("all", "")];
    let (server, folders) = serve_teams(clients(&tables), |builder| builder);
    let prompts = |client| ask(&server, Some(client), "prompts/list", json!({})).body;
    assert!(prompts("guest").contains("skills"));
    let asked = [stream("guest"), subscription("guest"), stream("all")];
    let [old, new, mut all] = asked.map(|request| open(&server, &request).0);
    // For a client that sees everything, the prompt and the schemas stay.
    std::fs::remove_dir_all(folders.root.join("public-notes")).unwrap();
    for mut stream in [old, new] {
        let mut seen = String::new();
        while !["tools", "prompts", "resources"]
            .iter()
            .all(|list| seen.contains(&format!("notifications/{list}/list_changed")))
        {
            let chunk = stream.chunk().unwrap().expect(&seen);
            seen.push_str(str::from_utf8(&chunk).unwrap());
        }
    }
    assert!(!prompts("guest").contains("skills"));
    assert!(prompts("all").contains("skills"));
    let mut seen = String::new();
    while !seen.contains("resources") {
        let chunk = all.chunk().unwrap().expect(&seen);
        seen.push_str(str::from_utf8(&chunk).unwrap());
    }
    assert!(!seen.contains("prompts"), "{seen}");
}

#[test]
fn client_without_resources_is_not_offered_any() {
    let tables = [
        ("none", "tools = [\"read_*\"]"),
        ("some", "tools = [\"skill_*\"]"),
    ];
    let (server, _folders) = serve_teams(clients(&tables), |builder| builder);
    let discover = json!({
        "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta()},
    });
    let discover = Request::post(discover.to_string())
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", "server/discover");
    for (client, has_resources) in [("none", false), ("some", true)] {
        let answers = [
            ask(&server, Some(client), "initialize", hello()).json(),
            Client::once(server.address, &as_client(discover.clone(), client)).json(),
        ];
        for answer in answers {
            let capabilities = &answer["result"]["capabilities"];
            assert!(capabilities["tools"].is_object(), "{client}: {answer}");
            for capability in ["resources", "extensions"] {
                let is_offered = capabilities[capability].is_object();
                assert_eq!(is_offered, has_resources, "{client} {capability}: {answer}");
            }
        }
        let templates = ask(&server, Some(client), "resources/templates/list", json!({}));
        let templates = templates.json();
        assert_eq!(templates["error"].is_null(), has_resources, "{templates}");
    }
}
