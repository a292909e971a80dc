//! The shutdown of a server: which calls and answers it waits for, and which it stops.

use std::time::Duration;

use serde_json::json;
use skillhost_server::HttpOptions;

use super::{endless_call, serve_guests, with_limits};
use crate::support::folders::Folders;
use crate::support::http::{Client, Request, TestServer};
use crate::support::watchdog::wait_until;
use crate::support::{UNREACHED, builder_with_guests, limits};

#[test]
fn shutdown_waits_for_calls_in_flight() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let grant = skillhost::Grant::new()
        .limits(limits(Duration::from_millis(600)))
        .skills(["*"])
        .unwrap();
    let builder = builder_with_guests().skills(&folders.root);
    let server = TestServer::start(
        builder.grant("unchecked.wasm", grant),
        HttpOptions::default(),
    );
    let host = &server.host;
    let mut idle = Client::connect(server.address);
    assert_eq!(idle.ask(&Request::get("/metrics")).status, 200);
    let mut working = Client::connect(server.address);
    working.send(&endless_call(1).bytes());
    wait_until("no call runs", || host.occupancy().running == 1);
    server.shutdown.request();
    assert!(idle.is_closed(), "an idle connection is closed at once");
    wait_until("still listening", || {
        std::net::TcpStream::connect(server.address).is_err()
    });
    // The call ends by itself, and its answer arrives.
    let answer = working.answer().unwrap();
    assert!(answer.text().contains("600ms"), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(working.is_closed());
    assert_eq!(server.wait(), 0);
}

#[test]
fn shutdown_answers_requests_that_have_arrived() {
    let (server, _folders) = serve_guests(with_limits(|_| {}));
    let request = Request::get("/metrics");
    let mut known = Client::connect(server.address);
    assert_eq!(known.ask(&request).status, 200);
    let mut clients: Vec<_> = (0..32).map(|_| Client::connect(server.address)).collect();
    clients.push(known);
    for client in &mut clients {
        client.send(&request.bytes());
    }
    server.shutdown.request();
    for client in &mut clients {
        assert_eq!(client.answer().unwrap().status, 200);
        assert!(client.is_closed());
    }
    assert_eq!(server.wait(), 0);
}

#[test]
fn unfinished_request_does_not_delay_shutdown() {
    let limits = with_limits(|limits| limits.shutdown_time = UNREACHED);
    let (server, _folders) = serve_guests(limits);
    let mut clients: Vec<_> = ["P", "POST /mcp HTTP/1.1\r\n", "GET /healthz"]
        .map(|start| {
            let mut client = Client::connect(server.address);
            client.send(start.as_bytes());
            client
        })
        .into();
    server.shutdown.request();
    assert_eq!(server.wait(), 0);
    assert!(clients.iter_mut().all(Client::is_closed));
}

#[test]
fn unread_responses_do_not_delay_shutdown() {
    let (server, folders) = serve_guests(with_limits(|limits| {
        limits.shutdown_time = UNREACHED;
        limits.write_time = UNREACHED;
    }));
    folders.write("a/large.txt", "x".repeat(8 << 20));
    let arguments = json!({"skill_name": "a", "file_path": "large.txt"});
    let large = Request::call(1, "read_file_in_skill", arguments);
    let _clients = ["application/json", "text/event-stream"].map(|form| {
        let mut client = Client::connect(server.address);
        client.send(&large.clone().with("Accept", form).bytes());
        let head = client.answer_head().unwrap();
        assert_eq!(head.header("content-type"), Some(form));
        client
    });
    server.shutdown.request();
    assert_eq!(server.wait(), 0);
}

#[test]
fn forced_end_refuses_request_without_its_whole_body() {
    let time = Duration::from_millis(200);
    let (server, _folders) = serve_guests(with_limits(|limits| limits.shutdown_time = time));
    let mut client = Client::connect(server.address);
    let request = endless_call(1).bytes();
    client.send(&request[..request.len() - 1]);
    server.shutdown.request();
    assert_eq!(server.wait(), 1);
    assert_eq!(client.answer().unwrap().status, 503);
    assert!(client.is_closed());
}

#[test]
fn shutdown_stops_endless_call() {
    for hurried in [false, true] {
        let time = if hurried {
            UNREACHED
        } else {
            Duration::from_millis(200)
        };
        let (server, _folders) = serve_guests(with_limits(|limits| limits.shutdown_time = time));
        let host = server.host.clone();
        let mut client = Client::connect(server.address);
        client.send(&endless_call(1).bytes());
        wait_until("no call runs", || host.occupancy().running == 1);
        server.shutdown.request();
        if hurried {
            server.shutdown.request();
        }
        assert_eq!(server.wait(), 1, "{hurried}");
        let answer = client.answer().unwrap();
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json()["id"], 1);
        assert!(client.is_closed());
        wait_until("the guest did not stop", || host.occupancy().running == 0);
    }
}
