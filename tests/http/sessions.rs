//! Clients that speak a protocol revision with sessions: notifications and cancellation.

use serde_json::{Value, json};
use skillhost_server::HttpOptions;

use super::{serve_guests, with_limits};
use crate::support::UNREACHED;
use crate::support::http::{Client, Request};
use crate::support::watchdog::wait_until;

#[test]
fn notifies_sessions_of_changes() {
    let (server, folders) = serve_guests(with_limits(|limits| limits.streams = 1));
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
    server.shutdown.request();
    while listening.chunk().unwrap().is_some() {}
    assert_eq!(server.wait(), 0);
}

#[test]
fn client_reconnects_with_its_earlier_session() {
    let (server, _folders) = serve_guests(HttpOptions::default());
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let hello = Request::post(hello.to_string());
    let own = Client::once(server.address, &hello);
    let own = own.header("mcp-session-id").unwrap();
    for earlier in [own, "of-another-process", ""] {
        let hello = hello.clone().with("Mcp-Session-Id", earlier);
        let answer = Client::once(server.address, &hello);
        assert_eq!(answer.status, 200, "{earlier}: {answer:?}");
        let session = answer.header("mcp-session-id").unwrap();
        assert_ne!(session, earlier);
        let read = Request::call(1, "read_skill", json!({"skill_name": "a"}));
        let read = read.with("Mcp-Session-Id", session);
        assert_eq!(Client::once(server.address, &read).text(), "# A\n");
    }
}

#[test]
fn session_cancels_only_its_own_call() {
    let options = with_limits(|limits| limits.request_time = UNREACHED);
    let (server, _folders) = serve_guests(options);
    let host = &server.host;
    let read = Request::call(1, "read_skill", json!({"skill_name": "a"}));
    let open_session = || {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = Client::once(server.address, &Request::post(hello.to_string()));
        answer.header("mcp-session-id").unwrap().to_owned()
    };
    let (own, other) = (open_session(), open_session());
    assert_ne!(own, other);
    assert!(own.len() == 32 && own.is_ascii(), "{own}");
    let cancel = |session: &str, id: Value| {
        let params = json!({"requestId": id});
        let method = "notifications/cancelled";
        let cancel = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let request = Request::post(cancel.to_string()).with("Mcp-Session-Id", session);
        assert_eq!(Client::once(server.address, &request).status, 202);
    };
    let both = "application/json, text/event-stream";
    let stream = Some("text/event-stream");
    // Without progress, and with progress as an event stream.
    for (token, accept, expected) in [
        (Value::Null, both, (200, stream)),
        (json!("p"), both, (200, stream)),
        (Value::Null, "application/json", (202, None)),
    ] {
        let arguments = json!({"skill_name": "a", "path": "p"});
        let mut params = json!({"name": "raw_sleep", "arguments": arguments});
        if !token.is_null() {
            params["_meta"] = json!({"progressToken": token});
        }
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let call = Request::post(call.to_string()).with("Mcp-Session-Id", &own);
        let call = call.with("Accept", accept);
        let mut client = Client::connect(server.address);
        client.send(&call.bytes());
        wait_until("no call runs", || host.occupancy().running == 1);
        for (session, id) in [
            (&*other, json!(1)),
            (&own, json!(2)),
            (&own, json!("1")),
            ("", json!(1)),
        ] {
            cancel(session, id);
        }
        // A cancelled call would end while the server answers these.
        for _ in 0..20 {
            assert_eq!(Client::once(server.address, &read).text(), "# A\n");
        }
        assert!(host.occupancy().running == 1);
        cancel(&own, json!(1));
        wait_until("the guest did not stop", || host.occupancy().running == 0);
        let answer = client.answer().unwrap();
        let found = (answer.status, answer.header("content-type"));
        assert_eq!(found, expected, "{answer:?}");
        assert!(!answer.body.contains("result"), "{answer:?}");
        // The connection stays open, and the id can be used again.
        let answer = client.ask(&read);
        assert_eq!(answer.text(), "# A\n");
    }
}
