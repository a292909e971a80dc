//! Peers that occupy slots and do nothing, and the peers that still get a slot.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use skillhost_server::{HttpOptions, Token};

use super::{TOKEN, endless_call, options, serve, serve_guests, short_call, with_limits};
use crate::support::http::{Client, Request, TestServer};
use crate::support::watchdog::wait_until;
use crate::support::{run_in_own_process, runs_in_own_process};

fn with_token(set: impl FnOnce(&mut HttpOptions)) -> HttpOptions {
    options(|options| {
        options.token = Some(Token::new(TOKEN).unwrap());
        set(options);
    })
}

fn authorised(request: Request) -> Request {
    request.with("Authorization", &format!("Bearer {TOKEN}"))
}

/// Returns a loopback address.
fn peer(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

/// Waits until the server has this number of connections.
fn wait_until_open(server: &TestServer, count: usize) {
    let mut asking = Client::connect(server.address);
    let shown = format!("skillhost_http_connections {count}\n");
    wait_until("the number of connections is wrong", || {
        let figures = asking.ask(&authorised(Request::get("/metrics")));
        figures.body.contains(&shown)
    });
}

#[test]
fn silent_connections_leave_slots_to_others() {
    // Descriptors belong to a process, so the test needs a process of its own.
    if !runs_in_own_process() {
        run_in_own_process("http::slots::silent_connections_leave_slots_to_others", "");
        return;
    }
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    for (with_a_token, count, addresses) in [
        (true, 512, 1),
        (true, 512, 4),
        (true, 5000, 1),
        (true, 5000, 4),
        (false, 5000, 1),
        (false, 5000, 4),
    ] {
        let server = serve(if with_a_token {
            with_token(|_| {})
        } else {
            HttpOptions::default()
        });
        let address = server.address;
        let mut early = Client::connect(address);
        assert_eq!(early.ask(&authorised(short_call(1))).status, 200);
        let (flooded, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let asking = scope.spawn(|| {
                while answered.load(Ordering::Relaxed) < 20 || !flooded.load(Ordering::Relaxed) {
                    let call = Client::once(address, &authorised(short_call(1)));
                    assert!(call.text().contains("def add"), "{call:?}");
                    let health = Client::once(address, &Request::get("/healthz"));
                    assert_eq!(health.status, 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut silent = Vec::new();
            for number in 0..count {
                let from = peer(1 + u8::try_from(number % addresses).unwrap());
                silent.push(Client::connect_from(from, address));
                if number % 50 == 0 {
                    // Waits for an answer. Without a pause, the flood might evict the other peer
                    // before its request is sent.
                    let before = answered.load(Ordering::Relaxed);
                    wait_until("no peer is answered", || {
                        answered.load(Ordering::Relaxed) > before || asking.is_finished()
                    });
                }
            }
            flooded.store(true, Ordering::Relaxed);
            asking.join().unwrap();
        });
        if with_a_token {
            assert_eq!(early.ask(&authorised(short_call(2))).status, 200);
        }
    }
}

#[test]
fn evicts_only_connections_without_token() {
    let server = serve(with_token(|options| options.limits.connections = 8));
    let connect = |request: &Request, status| {
        let mut client = Client::connect(server.address);
        assert_eq!(client.ask(request).status, status);
        client
    };
    let mut protected = [(); 4].map(|()| connect(&authorised(short_call(1)), 200));
    let mut asking = connect(&Request::get("/none"), 404);
    let mut silent = Client::connect(server.address);
    let spared = [(); 2].map(|()| Client::connect(server.address));
    // The oldest silent connection is evicted first, then those that sent requests, oldest first.
    let mut others = Vec::new();
    for closed in [&mut silent, &mut asking] {
        others.push(connect(&Request::get("/none"), 404));
        assert!(closed.is_closed());
    }
    let wrong = short_call(1).with("Authorization", "Bearer wrong");
    others.push(connect(&wrong, 401));
    assert!(others[0].is_closed());
    // Silent connections are spared while they are at most half of the unprotected ones.
    for mut spared in spared {
        assert_eq!(spared.ask(&short_call(1)).status, 401);
        others.push(spared);
    }
    for client in &mut protected {
        assert_eq!(client.ask(&authorised(short_call(2))).status, 200);
    }
    // A connection stays protected until it sends a request without the right token.
    let wrong = short_call(2).with("Authorization", "Bearer wrong");
    let last = [(Request::get("/healthz"), 200), (wrong, 401)];
    for (client, (request, status)) in protected.iter_mut().zip(last.iter().cycle()) {
        assert_eq!(client.ask(request).status, *status);
    }
    let mut newer = [(); 6].map(|()| connect(&authorised(short_call(3)), 200));
    let [one, two, rest @ ..] = &mut protected;
    assert!(others.iter_mut().chain([one, two]).all(Client::is_closed));
    assert!(rest.iter_mut().all(Client::is_open));
    for client in &mut newer {
        assert_eq!(client.ask(&authorised(short_call(4))).status, 200);
    }
}

#[test]
fn probe_is_the_only_request_of_its_connection() {
    let server = serve(HttpOptions::default());
    for path in ["/healthz", "/readyz"] {
        let mut client = Client::connect(server.address);
        let probe = Request::get(path).bytes();
        client.send(&[probe, short_call(1).bytes()].concat());
        let answer = client.answer().unwrap();
        assert_eq!(
            (answer.status, answer.header("connection")),
            (200, Some("close"))
        );
        assert!(client.is_closed());
        // On a connection that began with another request, the probe counts like any request.
        let mut client = Client::connect(server.address);
        for request in [short_call(1), Request::get(path), short_call(2)] {
            assert_eq!(client.ask(&request).status, 200);
        }
    }
}

#[test]
fn leaves_slots_for_probes() {
    let server = serve(with_token(|options| options.limits.connections = 8));
    let connect = || Client::connect(server.address);
    let protected = [(); 6].map(|()| {
        let mut client = connect();
        assert_eq!(client.ask(&authorised(short_call(1))).status, 200);
        client
    });
    let mut seventh = connect();
    let answer = seventh.ask(&authorised(short_call(2)));
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("1"))
    );
    assert!(seventh.is_closed());
    for path in ["/healthz", "/readyz"] {
        let _silent = [connect(), connect(), connect()];
        assert_eq!(connect().ask(&Request::get(path)).status, 200);
    }
    let [first, ..] = protected;
    drop(first);
    wait_until("the slot is still taken", || {
        connect().ask(&authorised(short_call(3))).status == 200
    });
}

#[test]
fn limits_connections_of_address_except_trusted_proxy() {
    for trusted in [&[][..], &["127.0.0.3"], &["10.0.0.0/8", "127.0.0.2/31"]] {
        let server = serve(with_token(|options| {
            options.limits.connections = 9;
            options.trusted_proxies = trusted.iter().map(|&text| text.to_owned()).collect();
        }));
        let connect = |last| Client::connect_from(peer(last), server.address);
        let mut one = connect(4);
        let mut many: Vec<_> = (0..6).map(|_| connect(3)).collect();
        let open_count = if trusted.is_empty() { 5 } else { 6 };
        wait_until_open(&server, 1 + open_count + 1);
        for (number, silent) in many.iter_mut().enumerate() {
            assert_eq!(silent.is_open(), number >= 6 - open_count, "{number}");
        }
        // A peer alone at its address does not wait.
        assert_eq!(one.ask(&authorised(short_call(1))).status, 200);
    }
}

#[test]
fn calls_protect_connections_of_server_without_token() {
    for trusted in [false, true] {
        let (server, _folders) = serve_guests(options(|options| {
            options.limits.connections = 8;
            options.limits.requests = 4;
            options.limits.streams = 2;
            if trusted {
                options.trusted_proxies = vec!["127.0.0.1".into()];
            }
        }));
        let most = if trusted { 4 } else { 3 };
        let mut working: Vec<_> = (0..most)
            .map(|_| {
                let mut client = Client::connect(server.address);
                client.send(&endless_call(1).bytes());
                client
            })
            .collect();
        wait_until("too few calls run", || {
            server.host.occupancy().running == most
        });
        let call = Request::call(2, "read_skill", json!({"skill_name": "a"}));
        let mut same_address = Client::connect(server.address);
        assert_eq!(same_address.ask(&call).status, 503);
        let mut other_address = Client::connect_from(peer(2), server.address);
        assert_eq!(
            other_address.ask(&call).status,
            if trusted { 503 } else { 200 }
        );
        let silent: Vec<_> = (0..40).map(|_| Client::connect(server.address)).collect();
        let health = Client::once(server.address, &Request::get("/healthz"));
        assert_eq!(health.status, 200);
        drop(silent);
        assert_eq!(server.host.occupancy().running, most);
        assert!(working.iter_mut().all(Client::is_open));
        drop(working);
        wait_until("the slot is still taken", || {
            Client::once(server.address, &call).status == 200
        });
    }
}

#[test]
fn streams_protect_connections_of_server_without_token() {
    let server = serve(with_limits(|limits| {
        limits.connections = 5;
        limits.streams = 4;
    }));
    let listen = Request::get("/mcp").with("Accept", "text/event-stream");
    let listening = |last| {
        let mut client = Client::connect_from(peer(last), server.address);
        client.send(&listen.bytes());
        client.head().unwrap()
    };
    let mut clients = Vec::new();
    for (last, status) in [
        (1, " 200 "),
        (1, " 200 "),
        (1, " 200 "),
        (1, " 503 "),
        (2, " 200 "),
    ] {
        let mut client = Client::connect_from(peer(last), server.address);
        client.send(&listen.bytes());
        assert!(client.head().unwrap().contains(status), "{last}");
        clients.push(client);
    }
    // No slot is left for a stream, but probes are answered.
    assert!(listening(2).contains(" 503 "));
    let mut silent = [(); 8].map(|()| Client::connect(server.address));
    assert_eq!(
        Client::once(server.address, &Request::get("/healthz")).status,
        200
    );
    assert!(silent[0].is_closed());
    for index in [0, 1, 2, 4] {
        assert!(clients[index].is_open(), "{index}");
    }
}

#[test]
fn refuses_invalid_trusted_proxy() {
    let bound = skillhost_server::Server::bind(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        options(|options| options.trusted_proxies = vec!["balancer.example".into()]),
    );
    let error = crate::support::block_on(bound).err().unwrap();
    let error = format!("{error:#}");
    assert!(error.contains("`balancer.example`"), "{error}");
}
