//! Requests that a grant allows, and those that it does not.

use super::*;
use crate::connect::Connection;

#[tokio::test]
async fn sends_what_a_grant_allows() {
    let tls = Tls::new();
    let server = server(OK, Some(&tls.acceptor)).await;
    let (address, port) = (server.address.to_string(), server.port());
    let host = format!("api.example.org:{port}");
    let rule = format!("GET,POST https://{host}/v1/*");
    let grant = NetworkGrant::new()
        .rule(rule.parse().unwrap())
        .private(address.parse().unwrap())
        .secret(SecretUse::new("TOKEN", "authorization", [&host]).unwrap());
    let client = egress(grant, Names::local(), &tls);
    let url = format!("https://API.example.org:{port}/v1/%61/../b?q=1");
    let request = Request::post(&url)
        .header("authorization", format!("Bearer {PLACEHOLDER}"))
        .header("host", "evil.example")
        .header("connection", "upgrade")
        .header("transfer_encoding", "a-coding")
        .header("content_length", "1")
        .header("proxy.connection", "a-connection")
        .header("x-other", "2")
        .body("some text")
        .unwrap();
    let answer = send(&client, "a.wasm", request).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
    assert_eq!(answer.body, b"hello");
    assert_eq!(answer.outcome.address, Some(address));
    assert_eq!(answer.outcome.rule, Some(rule));
    assert_eq!(answer.outcome.secrets, ["TOKEN"]);
    let received = server.received();
    assert!(
        received.starts_with("POST /v1/b?q=1 HTTP/1.1\r\n"),
        "{received}"
    );
    for part in [
        format!("authorization: Bearer {SECRET}\r\n"),
        format!("host: api.example.org:{port}\r\n"),
        "x-other: 2\r\n".to_owned(),
        "content-length: 9\r\n".to_owned(),
    ] {
        assert!(received.contains(&part), "{part} {received}");
    }
    for part in [
        "evil",
        "upgrade",
        "skillhost",
        "placeholder",
        "a-coding",
        "content_length",
        "a-connection",
    ] {
        assert!(!received.contains(part), "{part} {received}");
    }
}

#[tokio::test]
async fn denies_what_no_grant_allows() {
    let tls = Tls::new();
    let server = server(OK, None).await;
    let port = server.port();
    let grant = NetworkGrant::new()
        .rule(format!("GET http://localhost:{port}/v1/*").parse().unwrap())
        .rule("http://*.example.org".parse().unwrap())
        .rule("https://[::1]".parse().unwrap());
    let names = Names::local().name("public.example.org", &["1.1.1.1:0"]);
    let client = egress(grant, names, &tls);
    let local = |path: &str| format!("http://localhost:{port}{path}");
    for (component, method, uri, why) in [
        ("b.wasm", "GET", &*local("/v1/a"), "no rule"),
        ("", "GET", &local("/v1/a"), "no rule"),
        ("a.wasm", "POST", &local("/v1/a"), "no rule"),
        ("a.wasm", "GET", &local("/v2/a"), "no rule"),
        ("a.wasm", "GET", &local("/v1/../v2"), "no rule"),
        ("a.wasm", "GET", &local("/v1/..%2fa"), "`..`"),
        ("a.wasm", "GET", &local("/v1/%00"), "control character"),
        ("a.wasm", "GET", "http://127.0.0.1/v1/a", "no rule"),
        ("a.wasm", "GET", "http://2130706433/v1/a", "the host"),
        ("a.wasm", "GET", "http://u@localhost/v1/a", "user name"),
        ("a.wasm", "TRACE", &local("/v1/a"), "TRACE"),
        ("a.wasm", "GET", "http://public.example.org/", "plain"),
        ("a.wasm", "GET", "https://[::1]/", "::1"),
    ] {
        let request = Request::builder().method(method).uri(uri);
        let answer = send(&client, component, request.body("").unwrap()).await;
        let (kind, status) = (answer.failure(), answer.status());
        assert_eq!(
            (kind, status),
            (Some(FailureKind::Denied), 502),
            "{method} {uri}"
        );
        assert!(answer.why().contains(why), "{method} {uri}: {why}");
        assert_eq!(answer.outcome.address, None);
    }
    assert_eq!(server.received(), "");
    let answer = send(&client, "a.wasm", get(&local("/v1/a"))).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
}

#[tokio::test]
async fn denies_headers_that_replace_method_or_path() {
    let tls = Tls::new();
    let server = server(OK, None).await;
    let client = egress(grant_of(&server), Names::local(), &tls);
    let url = format!("http://localhost:{}/", server.port());
    for name in [
        "X-HTTP-Method-Override",
        "x-http-method",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
        "x-original-method",
        "x-original-uri",
        "x-original-host",
        "x-forwarded-method",
        "x-forwarded-uri",
        "x-forwarded-path",
        "x-forwarded-prefix",
        "x-forwarded-host",
        "x-forwarded-server",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-forwarded-request-uri",
        "forwarded",
        "forwarded-host",
        "x-forwarded",
        "x-host",
        "destination",
        "x-http-host-override",
        "x-http-path-override",
        "x-override-url",
        "x-rewrite-uri",
        "x-original-path",
        "x-envoy-original-path",
        "x-arr-original-url",
        "x-rewriteurl",
        "x-http-methodoverride",
        "x-methodoverride",
        "x-originalurl",
        "x-originalhost",
        "x-httpmethodoverride",
        "x-http-verb-override",
        "x-copy-from",
        "x-amz-copy-source",
        "x-ms-copy-source",
        "x-ms-rename-source",
        "x-object-manifest",
        "x-symlink-target",
        "x-oss-symlink-target",
        "x-symlinktarget",
        "x-ms-undelete-source",
        "x-httpmethod",
        "scriptname",
        "x-pathinfo",
        "upload-concat",
        "x-original-request-uri",
        "x-hostname-override",
        "x-original-fullurl",
        "x-matched-path",
        "x-target-url",
        "server-name",
        "x-copyfrom",
        "SCRIPT_NAME",
        "script-name",
        "x-script-name",
        "path-info",
        "path-translated",
        "request-method",
        "request-uri",
        "x-http-host",
        // Some servers do not distinguish characters other than letters and digits.
        "X_HTTP_Method_Override",
        "X-HTTP_Method_Override",
        "x.original.url",
        "x_rewrite~url",
    ] {
        let request = Request::post(&url).header(name, "DELETE").body("").unwrap();
        let answer = send(&client, "a.wasm", request).await;
        assert_eq!(answer.failure(), Some(FailureKind::Denied), "{name}");
        assert!(answer.why().contains("may replace"), "{name}");
        let request = Request::post(&url).header("trailer", format!("x-sum, {name}"));
        let answer = send(&client, "a.wasm", request.body("").unwrap()).await;
        assert_eq!(answer.failure(), Some(FailureKind::Denied), "{name}");
    }
    assert_eq!(server.received(), "");
    for name in [
        "x-forwarded-for",
        "x-original-name",
        "host-override",
        "x-source",
        "x-amz-meta-original-path",
        "x-copy-resource-id",
        "access-control-request-method",
        "x-request-id",
    ] {
        let request = Request::post(&url)
            .header(name, "a")
            .header("trailer", "x-sum");
        let answer = send(&client, "a.wasm", request.body("").unwrap()).await;
        let is_sent = name != "host-override";
        assert_eq!(answer.failure().is_none(), is_sent, "{name}");
    }
}

#[tokio::test]
async fn prevents_request_smuggling() {
    let tls = Tls::new();
    let smuggled = "POST /admin HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    for method in ["GET", "get", "HEAD", "POST", "DELETE", "OPTIONS"] {
        let server = server(OK, None).await;
        let url = format!("http://localhost:{}/", server.port());
        let client = egress(grant_of(&server), Names::local(), &tls);
        let request = |body| Request::builder().method(method).uri(&url).body(body);
        let answer = send(&client, "a.wasm", request(smuggled).unwrap()).await;
        if ["GET", "get", "HEAD"].contains(&method) {
            assert_eq!(answer.failure(), Some(FailureKind::Denied), "{method}");
            assert!(
                answer.why().contains("must have no body"),
                "{}",
                answer.why()
            );
            assert_eq!(server.received(), "", "{method}");
            let answer = send(&client, "a.wasm", request("").unwrap()).await;
            assert_eq!(answer.failure(), None, "{method}");
        } else {
            assert_eq!(answer.failure(), None, "{method}");
        }
        // With this header, the server reads no second request.
        let received = server.received();
        assert!(received.contains("\r\nconnection: close\r\n"), "{received}");
    }
}

#[tokio::test]
async fn denies_bodies_of_unknown_length_too() {
    let tls = Tls::new();
    let server = server(OK, None).await;
    let client = egress(grant_of(&server), Names::local(), &tls);
    let url = format!("http://localhost:{}/", server.port());
    for method in ["GET", "HEAD"] {
        for (pieces, is_denied) in [(&[][..], false), (&[""], false), (&["", "x"], true)] {
            let (sender, body) = mpsc::unbounded_channel();
            for piece in pieces {
                sender.send(Bytes::from(*piece)).unwrap();
            }
            drop(sender);
            let request = Request::builder().method(method).uri(&url);
            let request = request.body(Pieces(body)).unwrap();
            let sent = soon(send_body(&client, "a.wasm", request)).await;
            let why = sent.unwrap().1.failure.map(|failure| failure.why);
            let expected = format!("a {method} request must have no body");
            assert_eq!(why, is_denied.then_some(expected), "{pieces:?}");
        }
    }
}

#[tokio::test]
async fn ignores_internal_headers_from_guests() {
    let tls = Tls::new();
    let server = server(OK, Some(&tls.acceptor)).await;
    let host = format!("localhost:{}", server.port());
    let secret = SecretUse::new("TOKEN", "x-token", [&host]).unwrap();
    let client = egress(grant_of(&server).secret(secret), Names::local(), &tls);
    let url = format!("https://{host}/");
    let forged = "chosen-by-the-guest-0123456789";
    let request = |url: &str| {
        Request::get(url)
            .header("skillhost-grant", "c.wasm")
            .header("skillhost-grant", "a.wasm")
            .header("skillhost-placeholder", format!("TOKEN={forged}"))
            .header("skillhost-placeholder", format!("OTHER={forged}"))
            .header("skillhost-outcome", "{}")
            .header("x-token", forged)
            .body("")
            .unwrap()
    };
    // `b.wasm` has no grant, even if its guest names other components in the header.
    let answer = send(&client, "b.wasm", request(&url)).await;
    assert_eq!(answer.failure(), Some(FailureKind::Denied));
    assert_eq!(server.received(), "");
    let answer = send(&client, "a.wasm", request(&url)).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
    assert_eq!(answer.outcome.secrets, [""; 0]);
    let received = server.received();
    assert!(received.contains(forged), "{received}");
    assert!(!received.contains(SECRET), "{received}");
    for part in ["skillhost-grant", "skillhost-placeholder"] {
        assert!(!received.contains(part), "{received}");
    }
}

#[tokio::test]
async fn denial_arrives_while_a_body_is_sent() {
    let tls = Tls::new();
    let client = egress(NetworkGrant::new(), Names::local(), &tls);
    for _ in 0..50 {
        let request = Request::post("https://localhost/").body(Endless).unwrap();
        let (response, outcome) = soon(send_body(&client, "a.wasm", request)).await.unwrap();
        assert_eq!(response.status(), 502);
        assert_eq!(outcome.failure.unwrap().kind, FailureKind::Denied);
    }
}

#[tokio::test]
async fn sends_body_while_response_is_partly_read() {
    async fn read_until(stream: &mut tokio::net::TcpStream, end: &[u8]) {
        let mut received = Vec::new();
        while !received.ends_with(end) {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0);
        }
    }
    let tls = Tls::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, b"first\r\n").await;
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx";
        stream.write_all(head.as_bytes()).await.unwrap();
        read_until(&mut stream, b"last\r\n0\r\n\r\n").await;
        stream
    });
    let url = format!("http://localhost:{}/", address.port());
    let grant = NetworkGrant::new().private(address.to_string().parse().unwrap());
    let client = egress(grant.rule(url.parse().unwrap()), Names::local(), &tls);
    let (pieces, body) = mpsc::unbounded_channel();
    pieces.send(Bytes::from_static(b"first")).unwrap();
    let request = Request::post(&url).body(Pieces(body)).unwrap();
    let (response, _) = soon(send_body(&client, "a.wasm", request)).await.unwrap();
    let mut body = response.into_body();
    let first = soon(body.frame()).await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "x");
    expect_nothing_more(&mut body).await;
    pieces.send(Bytes::from_static(b"last")).unwrap();
    drop(pieces);
    // The body arrives although nobody reads the response.
    let mut stream = soon(server).await.unwrap();
    expect_nothing_more(&mut body).await;
    stream.write_all(b"y").await.unwrap();
    assert_eq!(soon(body.collect()).await.unwrap().to_bytes(), "y");
}

#[tokio::test]
async fn reads_large_response_while_body_is_sent() {
    const LENGTH: usize = 8 << 20;
    // Holds the whole response, so that it fills each of hyper's buffers, as fast servers without
    // TLS can.
    let (ours, mut theirs) = tokio::io::duplex(2 * LENGTH);
    let server = tokio::spawn(async move {
        assert_ne!(theirs.read(&mut [0; 4096]).await.unwrap(), 0);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        let mut answer = head.into_bytes();
        answer.resize(answer.len() + LENGTH, b'x');
        theirs.write_all(&answer).await.unwrap();
        theirs
    });
    let (_pieces, body) = mpsc::unbounded_channel();
    let request = Request::post("/").body(Pieces(body)).unwrap();
    let response = soon(Connection::over(ours).exchange(request)).await;
    let (mut body, mut received) = (response.unwrap().into_body(), 0);
    while received < LENGTH {
        let frame = soon(body.frame()).await.unwrap().unwrap();
        received += frame.into_data().unwrap().len();
    }
    drop(soon(server).await.unwrap());
}
