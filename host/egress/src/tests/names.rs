//! Host names whose addresses an attacker chooses.

use tokio::net::{TcpSocket, TcpStream};

use super::*;

#[tokio::test]
async fn checks_every_address_of_a_name() {
    let tls = Tls::new();
    let grant = NetworkGrant::new().rule("https://*.example.org".parse().unwrap());
    let many = vec!["1.1.1.1:0"; 1_001];
    let mut last_is_private = vec!["1.1.1.1:0"; 999];
    last_is_private.push("[fd00:ec2::254]:0");
    let names = Names::default()
        .name("private.example.org", &["10.0.0.1:0"])
        .name("mixed.example.org", &["1.1.1.1:0", "169.254.169.254:0"])
        .name("mapped.example.org", &["[::ffff:127.0.0.1]:0"])
        .name("azure.example.org", &["168.63.129.16:0"])
        .name("zone.example.org", &["[fe80::1%1]:0"])
        .name("zero.example.org", &["0.0.0.0:0"])
        .name("last.example.org", &last_is_private)
        .name("many.example.org", &many)
        .name("empty.example.org", &[]);
    let client = egress(grant, names, &tls);
    let (denied, name) = (FailureKind::Denied, FailureKind::Name);
    for (host, kind, why) in [
        ("private", denied, "10.0.0.1"),
        ("mixed", denied, "169.254"),
        ("mapped", denied, "127.0.0.1"),
        ("azure", denied, "168.63.129.16"),
        ("zone", denied, "fe80::1"),
        ("zero", denied, "0.0.0.0"),
        ("last", denied, "fd00:ec2::254"),
        ("many", name, "1001 addresses"),
        ("empty", name, "0 addresses"),
        ("none", name, "not found"),
    ] {
        let request = get(&format!("https://{host}.example.org/"));
        let answer = send(&client, "a.wasm", request).await;
        assert_eq!(answer.failure(), Some(kind), "{host}");
        assert!(answer.why().contains(why), "{host}: {}", answer.why());
        assert_eq!(answer.outcome.address, None, "{host}");
    }
}

#[tokio::test]
async fn consent_allows_no_private_address() {
    let names = Names::local().name("private.example.org", &["10.0.0.1:0"]);
    let client = egress(NetworkGrant::ask(), names, &Tls::new());
    for (host, why) in [
        ("private.example.org", "10.0.0.1"),
        ("api.example.org", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
    ] {
        let answer = send(&client, "a.wasm", get(&format!("https://{host}/"))).await;
        assert_eq!(answer.failure(), Some(FailureKind::Denied), "{host}");
        assert!(answer.why().contains(why), "{host}: {}", answer.why());
    }
}

#[tokio::test]
async fn connects_to_the_address_that_was_checked() {
    let tls = Tls::new();
    let (good, evil) = (server(OK, None).await, server(OK, None).await);
    let checked = good.address.to_string();
    let grant = NetworkGrant::new()
        .rule("http://api.example.org".parse().unwrap())
        .private(checked.parse().unwrap());
    let names = Names::default()
        .name("api.example.org", &[&checked])
        .name("api.example.org", &[&evil.address.to_string()]);
    let client = egress(grant, names, &tls);
    let answer = send(&client, "a.wasm", get("http://api.example.org/")).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
    assert_eq!(answer.outcome.address, Some(checked));
    // The next request resolves the name again, and checks the new address.
    let answer = send(&client, "a.wasm", get("http://api.example.org/")).await;
    assert_eq!(answer.failure(), Some(FailureKind::Denied));
    assert_eq!(evil.received(), "");
}

#[tokio::test]
async fn accepts_a_thousand_addresses_and_tries_four() {
    let tls = Tls::new();
    let server = server(OK, None).await;
    let good = server.address.to_string();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let refused = closed.local_addr().unwrap().to_string();
    drop(closed);
    let grant = NetworkGrant::new()
        .rule("http://*.example.org".parse().unwrap())
        .private("127.0.0.1".parse().unwrap());
    let thousand = vec![&*good; 1_000];
    let fourth = [&*refused, &refused, &refused, &good];
    let fifth = [&*refused, &refused, &refused, &refused, &good];
    let names = Names::default()
        .name("thousand.example.org", &thousand)
        .name("fourth.example.org", &fourth)
        .name("fifth.example.org", &fifth);
    let client = egress(grant, names, &tls);
    for (host, failure) in [
        ("thousand", None),
        ("fourth", None),
        ("fifth", Some(FailureKind::Connection)),
    ] {
        let request = get(&format!("http://{host}.example.org/"));
        let answer = send(&client, "a.wasm", request).await;
        assert_eq!(answer.failure(), failure, "{host}");
    }
}

/// Starts a server that never answers attempts to connect: its queue has the returned connections.
async fn silent_server() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    let time = Duration::from_millis(100);
    while let Ok(connected) = tokio::time::timeout(time, TcpStream::connect(address)).await {
        queue.push(connected.unwrap());
    }
    (address, listener, queue)
}

#[tokio::test]
async fn reaches_address_after_silent_ones() {
    let tls = Tls::new();
    let server = server(OK, None).await;
    let good = server.address.to_string();
    let (silent, _listener, _queue) = silent_server().await;
    let silent = silent.to_string();
    let grant = NetworkGrant::new()
        .rule("http://*.example.org".parse().unwrap())
        .private("127.0.0.1".parse().unwrap());
    let names = Names::default()
        .name("second.example.org", &[&silent, &good])
        .name("fourth.example.org", &[&silent, &silent, &silent, &good])
        .name("silent.example.org", &[&silent]);
    let client = egress(grant, names, &tls);
    for (host, failure, address) in [
        ("second", None, Some(&good)),
        ("fourth", None, Some(&good)),
        // The last address has all the time to connect.
        ("silent", Some(FailureKind::Timeout), None),
    ] {
        let request = get(&format!("http://{host}.example.org/"));
        let answer = send(&client, "a.wasm", request).await;
        assert_eq!(answer.failure(), failure, "{host}");
        assert_eq!(answer.outcome.address.as_ref(), address, "{host}");
    }
}

#[tokio::test]
async fn name_servers_that_never_answer_are_a_timeout() {
    let tls = Tls::new();
    let grant = NetworkGrant::new().rule("https://*.example.org".parse().unwrap());
    let client = egress(grant, Names::default(), &tls);
    let answer = send(&client, "a.wasm", get("https://never.example.org/")).await;
    assert_eq!(answer.failure(), Some(FailureKind::Timeout));
    assert!(answer.why().contains("not reached"));
}

#[tokio::test]
async fn passes_redirects_to_guests_and_checks_their_targets() {
    let tls = Tls::new();
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "https://[::ffff:169.254.169.254]/",
        "https://metadata.example.org/",
        "http://localhost/",
        "https://other.example.net/",
        "//169.254.169.254/",
    ] {
        let redirect =
            format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let server = server(redirect, Some(&tls.acceptor)).await;
        let names = Names::local().name("metadata.example.org", &["169.254.169.254:0"]);
        let grant = grant_of(&server).rule("https://*.example.org".parse().unwrap());
        let client = egress(grant, names, &tls);
        let url = format!("https://localhost:{}/", server.port());
        let answer = send(&client, "a.wasm", get(&url)).await;
        assert_eq!((answer.failure(), answer.status()), (None, 302));
        assert_eq!(answer.response.headers()["location"], location);
        if location.starts_with("http") {
            let answer = send(&client, "a.wasm", get(location)).await;
            assert_eq!(answer.failure(), Some(FailureKind::Denied), "{location}");
        }
    }
}
