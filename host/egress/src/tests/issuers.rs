//! The keys of issuers, from addresses that the operator chose.

use super::*;

/// The maximum size of an issuer's keys in these tests, in bytes.
const MAX_KEYS: usize = 1_000;

/// Starts the process with these issuers and no grant.
fn with_issuers(issuers: &[&str]) -> EgressClient {
    egress_with_issuers(
        4,
        NetworkGrant::new(),
        Names::default(),
        &Tls::new(),
        issuers,
    )
}

/// Fetches keys, and returns them or the error as text.
async fn fetch(client: &EgressClient, address: &str) -> Result<String, String> {
    let keys = soon(client.fetch_keys(address, MAX_KEYS)).await;
    let keys = keys.map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(keys).unwrap())
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn fetches_keys_or_reports_the_error() {
    let (largest, too_large) = ("x".repeat(MAX_KEYS), "x".repeat(MAX_KEYS + 1));
    let redirect = "HTTP/1.1 302 Found\r\nlocation: http://localhost/\r\n\r\n";
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nkeys";
    let trailers = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n\
                    4\r\nkeys\r\n0\r\nx: 1\r\n\r\n";
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
    let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(48_000);
    for (reply, expected) in [
        (
            answer("200 OK", "keys of an issuer"),
            Ok("keys of an issuer"),
        ),
        (answer("200 OK", &largest), Ok(&*largest)),
        ("HTTP/1.0 200 OK\r\n\r\nkeys".to_owned(), Ok("keys")),
        (trailers.to_owned(), Ok("keys")),
        (
            answer("200 OK", &too_large),
            Err("over the limit of 1000 bytes"),
        ),
        (answer("500 No", "no keys"), Err("answered with status 500")),
        (
            answer("203 Other", "no keys"),
            Err("answered with status 203"),
        ),
        (redirect.to_owned(), Err("answered with status 302")),
        (cut.to_owned(), Err("cut off")),
        (head, Err("")),
        (
            hints + OK,
            Err("the server sent too much without a complete head or a part of the body"),
        ),
        ("no HTTP".to_owned(), Err("")),
    ] {
        let (server, good_server) = (server(&reply, None).await, server(OK, None).await);
        // A name and an address, which both lead to this machine.
        for host in ["localhost", "127.0.0.1"] {
            let address = format!("http://{host}:{}/keys?a=b", server.port());
            let good = format!("http://{host}:{}/", good_server.port());
            let client = with_issuers(&[&address, &good]);
            match (fetch(&client, &address).await, expected) {
                (Ok(keys), Ok(expected)) => assert_eq!(keys, expected),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                (fetched, _) => panic!("{reply}: {fetched:?}"),
            }
            // A failure does not affect the next fetch.
            assert_eq!(fetch(&client, &good).await.as_deref(), Ok("hello"));
            let received = server.received();
            for part in [
                "GET /keys?a=b HTTP/1.1\r\n",
                &format!("host: {host}:{}\r\n", server.port()),
                "accept: application/json\r\n",
                "user-agent: skillhost\r\n",
            ] {
                assert!(received.contains(part), "{part} {received}");
            }
            assert!(!received.contains("skillhost-"), "{received}");
        }
    }
}

#[tokio::test]
async fn fetches_only_from_issuers() {
    let server = server(OK, None).await;
    let good = format!("http://localhost:{}/keys", server.port());
    let client = with_issuers(&[&good, "https://[::1", "https://u@localhost/"]);
    for (address, expected) in [
        (&*format!("{good}/other"), "no issuer"),
        (&good.to_uppercase(), "no issuer"),
        ("", "no issuer"),
        ("http://169.254.169.254/", "no issuer"),
        ("https://[::1", "authority"),
        ("https://u@localhost/", "user name"),
    ] {
        let error = fetch(&client, address).await.unwrap_err();
        assert!(error.contains(expected), "{address}: {error}");
    }
    // A guest cannot ask for keys, and an issuer's address is in no grant.
    let request = Request::get(&good).header("skillhost-issuer", &good);
    let denied = send(&client, "a.wasm", request.body("").unwrap()).await;
    assert_eq!(denied.failure(), Some(FailureKind::Denied));
    assert_eq!(server.received(), "");
    assert_eq!(fetch(&client, &good).await.as_deref(), Ok("hello"));
}

#[tokio::test]
async fn issuers_need_valid_certificates() {
    let (trusted, other) = (Tls::new(), Tls::new());
    for (served, is_valid) in [(&trusted, true), (&other, false)] {
        let server = server(OK, Some(&served.acceptor)).await;
        let address = format!("https://localhost:{}/", server.port());
        let issuers = [&*address];
        let grant = NetworkGrant::new();
        let client = egress_with_issuers(4, grant, Names::default(), &trusted, &issuers);
        match fetch(&client, &address).await {
            Ok(keys) => assert!(is_valid && keys == "hello"),
            Err(error) => assert!(!is_valid && error.contains("invalid peer certificate")),
        }
    }
}

/// Starts a server that accepts requests, and answers none.
async fn silent_server() -> Server {
    let script = Script {
        reads: true,
        answer: Vec::new(),
        end: End::Wait,
    };
    script_server(script, None).await
}

#[tokio::test]
async fn fetches_again_after_timeouts() {
    let mut silent = silent_server().await;
    let good = server(OK, None).await;
    let slow = format!("http://localhost:{}/", silent.port());
    let fast = format!("http://localhost:{}/", good.port());
    let client = with_issuers(&[&slow, &fast]);
    for _ in 0..3 {
        let time = Duration::from_millis(100);
        let fetched = soon(client.fetch_keys_within(time, &slow, MAX_KEYS)).await;
        let error = fetched.unwrap_err().to_string();
        assert!(error.contains("took longer than 100ms"), "{error}");
        // The request ends with the fetch.
        soon(silent.ended.recv()).await.unwrap();
    }
    assert_eq!(fetch(&client, &fast).await.as_deref(), Ok("hello"));
}

#[tokio::test]
async fn guests_and_issuers_leave_slots_for_each_other() {
    let tls = Tls::new();
    let (mut silent, mut silent_issuer) = (silent_server().await, silent_server().await);
    let good = server(OK, None).await;
    let slow = format!("http://localhost:{}/", silent_issuer.port());
    let fast = format!("http://localhost:{}/", good.port());
    let grant = grant_of(&silent).rule(fast.parse().unwrap());
    let issuers = [&*slow, &fast];
    let client = egress_with_issuers(2, grant, Names::local(), &tls, &issuers);
    let slow_fetch = {
        let (client, slow) = (client.clone(), slow.clone());
        tokio::spawn(async move { client.fetch_keys(&slow, MAX_KEYS).await })
    };
    soon(silent_issuer.begun.recv()).await.unwrap();
    // A fetch of keys uses no slot of guests.
    let url = format!("http://localhost:{}/", silent.port());
    let mut requests = Vec::new();
    for component in ["a.wasm", "c.wasm", "a.wasm", "c.wasm"] {
        let (client, request) = (client.clone(), get(&url).map(|_| Full::default()));
        requests.push(tokio::spawn(async move {
            let _response = send_body(&client, component, request).await;
        }));
    }
    for _ in 0..2 {
        soon(silent.begun.recv()).await.unwrap();
    }
    // Guests use no slots of issuers, even while some guests wait.
    assert_eq!(fetch(&client, &fast).await.as_deref(), Ok("hello"));
    assert!(silent.begun.try_recv().is_err());
    assert!(!slow_fetch.is_finished());
    requests.iter().for_each(tokio::task::JoinHandle::abort);
    slow_fetch.abort();
    let answer = send(&client, "a.wasm", get(&fast)).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
}

#[tokio::test]
async fn notices_that_the_process_has_ended() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let lifetime = ours.try_clone().unwrap();
    let client = EgressClient::new(ours.into(), lifetime.into(), 4);
    assert!(!client.has_ended());
    drop(theirs);
    assert!(client.has_ended());
    let error = fetch(&client, "http://localhost/").await.unwrap_err();
    assert!(error.contains("egress process"), "{error}");
}
