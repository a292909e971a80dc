//! What one client at full load leaves to others, and the requests that count for it.

use std::net::SocketAddr;

use serde_json::json;
use skillhost_mcp::http::{HttpOptions, Server};

use super::{as_client, call, clients, serve_teams};
use crate::http::wait_until;
use crate::support::http::{Client, Request, TestServer};

/// Returns a request for the stream of changes.
fn listen(client: &str) -> Request {
    let request = Request::get("/mcp").with("Accept", "text/event-stream");
    as_client(request, client)
}

/// Opens a connection, sends a request and returns both with the answer's status.
fn open(server: &TestServer, request: &Request) -> (Client, u16) {
    let mut connection = Client::connect(server.address);
    connection.send(&request.bytes());
    let status = connection.head().unwrap()[9..12].parse().unwrap();
    (connection, status)
}

/// Returns clients with these tables, without the client that has no name.
fn only(tables: &[(&str, &str)]) -> HttpOptions {
    let mut options = clients(tables);
    options.token = None;
    options
}

fn endless(id: u64, client: &str) -> Request {
    let arguments = json!({"skill_name": "public-notes", "path": "p"});
    as_client(Request::call(id, "raw_sleep", arguments), client)
}

#[test]
fn each_client_has_a_place_of_its_own_however_many_there_are() {
    let mut options = only(&[("greedy", ""), ("other", ""), ("third", "")]);
    options.limits.requests = 4;
    options.limits.streams = 4;
    let (server, _folders) = serve_teams(options, |builder| builder);
    let mut taken = Vec::new();
    let mut statuses = Vec::new();
    for id in 0..4 {
        let (stream, status) = open(&server, &listen("greedy"));
        taken.push(stream);
        statuses.push(status);
        let mut connection = Client::connect(server.address);
        connection.send(&endless(id, "greedy").bytes());
        taken.push(connection);
    }
    assert_eq!(statuses, [200, 200, 503, 503]);
    wait_until("not all its calls run", || {
        server.host.occupancy().running == 2
    });
    for client in ["other", "third"] {
        let (_stream, status) = open(&server, &listen(client));
        assert_eq!(status, 200, "{client}");
        let read = json!({"skill_name": "public-notes"});
        let answer = call(&server, Some(client), "read_skill", read);
        assert_eq!(answer.text(), "# meadow\n", "{client}");
    }
}

#[test]
fn a_server_with_fewer_places_than_clients_is_refused() {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    for key in ["requests", "streams", "connections"] {
        let check = |places| {
            let mut options = clients(&[("one", ""), ("other", "")]);
            let limits = &mut options.limits;
            *match key {
                "requests" => &mut limits.requests,
                "streams" => &mut limits.streams,
                _ => &mut limits.connections,
            } = places;
            Server::check(address, &options).map_err(|error| format!("{error:#}"))
        };
        // The client without a name is one more.
        assert_eq!(check(3), Ok(()), "{key}");
        let error = check(2).unwrap_err();
        let told = format!("`{key}` in `[http]` leaves 2 to 3 clients");
        assert!(error.contains(&told), "{error}");
    }
}

#[test]
fn a_call_with_the_header_of_a_subscription_counts_as_a_call() {
    let mut options = only(&[("one", "")]);
    options.limits.requests = 1;
    let (server, _folders) = serve_teams(options, |builder| builder);
    let read = json!({"skill_name": "public-notes"});
    let read = as_client(Request::call(1, "read_skill", read), "one");
    let disguised = read.with("Mcp-Method", "subscriptions/listen");
    let answer = Client::once(server.address, &disguised);
    assert_eq!(answer.text(), "# meadow\n");
    let mut running = Client::connect(server.address);
    running.send(&endless(7, "one").bytes());
    wait_until("no call runs", || server.host.occupancy().running == 1);
    for (version, status) in [("2025-11-25", 503), ("2026-07-28", 400)] {
        let asked = disguised.clone().with("MCP-Protocol-Version", version);
        let answer = Client::once(server.address, &asked);
        assert_eq!(answer.status, status, "{version} {answer:?}");
    }
    let asked = disguised.without("MCP-Protocol-Version");
    assert_eq!(Client::once(server.address, &asked).status, 503);
}
