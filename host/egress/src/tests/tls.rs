//! Servers with bad certificates and old protocols.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

use super::*;

/// Returns a certificate for `localhost`, modified by `change`, then signed by an authority that
/// clients trust.
fn signed(change: impl FnOnce(&mut CertificateParams)) -> Tls {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let trusted = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let served = params.signed_by(&key, &issuer).unwrap();
    Tls::with(&trusted, &[&served], key.serialize_der())
}

fn names(names: &[&str]) -> Vec<rcgen::SanType> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap().subject_alt_names
}

#[tokio::test]
async fn bad_certificates_are_failures() {
    let many: Vec<String> = (0..500).map(|n| format!("n{n}.example.org")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let unknown = Tls {
        acceptor: Tls::new().acceptor,
        ..Tls::new()
    };
    let bad = Some(FailureKind::Certificate);
    for (what, tls, host, failure) in [
        ("good", signed(|_| {}), "localhost", None),
        (
            "another name",
            signed(|it| it.subject_alt_names = names(&["api.example.org"])),
            "localhost",
            bad,
        ),
        (
            "no name",
            signed(|it| it.subject_alt_names = names(&[])),
            "localhost",
            bad,
        ),
        (
            "many names",
            signed(|it| it.subject_alt_names = names(&many)),
            "localhost",
            bad,
        ),
        (
            "a wildcard",
            signed(|it| it.subject_alt_names = names(&["*.example.org"])),
            "api.example.org",
            None,
        ),
        (
            "a wildcard for an address",
            signed(|it| it.subject_alt_names = names(&["*.0.0.1"])),
            "127.0.0.1",
            bad,
        ),
        (
            "expired",
            signed(|it| it.not_after = date_time_ymd(2020, 1, 1)),
            "localhost",
            bad,
        ),
        (
            "not yet valid",
            signed(|it| it.not_before = date_time_ymd(2999, 1, 1)),
            "localhost",
            bad,
        ),
        ("unknown and self-signed", unknown, "localhost", bad),
        (
            "an address",
            signed(|it| it.subject_alt_names = names(&["127.0.0.1"])),
            "127.0.0.1",
            None,
        ),
        (
            "another address",
            signed(|it| it.subject_alt_names = names(&["127.0.0.2"])),
            "127.0.0.1",
            bad,
        ),
        ("a name for an address", signed(|_| {}), "127.0.0.1", bad),
    ] {
        let server = server(OK, Some(&tls.acceptor)).await;
        let client = egress(grant_of(&server), Names::local(), &tls);
        let url = format!("https://{host}:{}/", server.port());
        let answer = send(&client, "a.wasm", get(&url)).await;
        assert_eq!(answer.failure(), failure, "{what}");
        if failure.is_some() {
            answer.why();
            assert_eq!(server.received(), "", "{what}");
        }
    }
}

#[tokio::test]
async fn failures_repeat_no_text_of_certificates() {
    let secret = SECRET.to_lowercase();
    for name in [
        "a-word-of-the-server",
        &secret,
        &format!("*.a{secret}b.example.org"),
    ] {
        let tls = signed(|it| it.subject_alt_names = names(&[name]));
        let server = server(OK, Some(&tls.acceptor)).await;
        let address = format!("https://localhost:{}/", server.port());
        let issuers = [&*address];
        let client = egress_with_issuers(4, grant_of(&server), Names::local(), &tls, &issuers);
        let answer = send(&client, "a.wasm", get(&address)).await;
        assert_eq!(answer.failure(), Some(FailureKind::Certificate), "{name}");
        let keys = soon(client.fetch_keys(&address, 1_000)).await;
        for why in [answer.why(), &keys.unwrap_err().to_string()] {
            let expected = "invalid peer certificate: it is not valid for the name of the host";
            assert_eq!(why, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn sends_names_but_not_addresses_to_servers() {
    let tls = signed(|it| it.subject_alt_names = names(&["localhost", "127.0.0.1"]));
    for host in ["localhost", "127.0.0.1"] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{host}:{}/", listener.local_addr().unwrap().port());
        let acceptor = tls.acceptor.clone();
        let sent_name = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let name = stream.get_ref().1.server_name().map(str::to_owned);
            stream.write_all(OK.as_bytes()).await.unwrap();
            name
        });
        let grant = NetworkGrant::new()
            .rule(url.parse().unwrap())
            .private("127.0.0.1".parse().unwrap());
        let client = egress(grant, Names::local(), &tls);
        let answer = send(&client, "a.wasm", get(&url)).await;
        assert_eq!((answer.failure(), answer.status()), (None, 200));
        let name = soon(sent_name).await.unwrap();
        assert_eq!(name.as_deref(), (host == "localhost").then_some(host));
    }
}

#[tokio::test]
async fn old_and_broken_tls_is_a_failure() {
    let tls = Tls::new();
    // A server's hello: its version, 32 random bytes, no session, a cipher of that version.
    let hello = |minor: u8| {
        let random = [7; 32];
        let mut hello = vec![22, 3, 1, 0, 42, 2, 0, 0, 38, 3, minor];
        hello.extend_from_slice(&random);
        hello.extend_from_slice(&[0, 0, 0x2f, 0]);
        hello
    };
    for (what, answer) in [
        ("TLS 1.0", hello(1)),
        ("TLS 1.1", hello(2)),
        ("no common version", vec![21, 3, 1, 0, 2, 2, 70]),
        ("no TLS", OK.into()),
        ("nothing", Vec::new()),
        ("a record without end", [22, 3, 3, 0xff, 0xff].into()),
    ] {
        let server = server(answer, None).await;
        let client = egress(grant_of(&server), Names::local(), &tls);
        let url = format!("https://localhost:{}/", server.port());
        let answer = send(&client, "a.wasm", get(&url)).await;
        assert_eq!(answer.failure(), Some(FailureKind::Certificate), "{what}");
        answer.why();
    }
}

#[tokio::test]
async fn server_that_is_silent_in_tls_is_a_timeout() {
    let tls = Tls::new();
    let script = Script {
        reads: true,
        answer: Vec::new(),
        end: End::Wait,
    };
    let mut server = script_server(script, None).await;
    let client = egress(grant_of(&server), Names::local(), &tls);
    let url = format!("https://localhost:{}/", server.port());
    let answer = send(&client, "a.wasm", get(&url)).await;
    assert_eq!(answer.failure(), Some(FailureKind::Timeout));
    soon(server.ended.recv()).await.unwrap();
}

#[tokio::test]
async fn informational_heads_without_end_are_a_failure() {
    let tls = Tls::new();
    let heads = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(48_000);
    let server = server(heads + OK, Some(&tls.acceptor)).await;
    let client = egress(grant_of(&server), Names::local(), &tls);
    let url = format!("https://localhost:{}/", server.port());
    let answer = send(&client, "a.wasm", get(&url)).await;
    assert_eq!(answer.failure(), Some(FailureKind::Protocol));
}
