//! Secrets: where placeholders are replaced, and servers that send secrets back.

use super::*;

/// The placeholder in base64, as in Basic authentication.
const BASE64: &str = "cGxhY2Vob2xkZXItMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// The result of a request with a placeholder.
#[derive(Debug, Clone, Copy)]
enum Fate<'a> {
    /// The server gets this in the request, and `TOKEN` is sent.
    Replaced(&'a str),
    /// The server gets this in the request, and no secret.
    Text(&'a str),
    Denied,
}

#[tokio::test]
async fn sends_secrets_only_to_allowed_headers_and_hosts() {
    use Fate::{Denied, Replaced, Text};
    let tls = Tls::new();
    let secure = server(OK, Some(&tls.acceptor)).await;
    let second = server(OK, Some(&tls.acceptor)).await;
    let plain = server(OK, None).await;
    let host = format!("localhost:{}", secure.port());
    // Without TLS, not even the right host and port get the secret.
    let plain_host = format!("localhost:{}", plain.port());
    let hosts = [&host, &plain_host];
    let mut grant = grant_of(&secure)
        .secret(SecretUse::new("TOKEN", "X-Token", hosts).unwrap())
        .secret(SecretUse::new("OTHER", "x-other", hosts).unwrap());
    for server in [&second, &plain] {
        for scheme in ["http", "https"] {
            let rule = format!("{scheme}://localhost:{}", server.port());
            grant = grant.rule(rule.parse().unwrap());
        }
    }
    let client = egress(grant, Names::local(), &tls);
    let url = format!("https://{host}/");
    let second_url = format!("https://localhost:{}/", second.port());
    let plain_url = format!("http://{plain_host}/");
    let other_name = format!("https://api.example.org:{}/", secure.port());
    let by_address = format!("https://127.0.0.1:{}/", secure.port());
    let with_user = format!("https://{PLACEHOLDER}@{host}/");
    let in_host = format!("https://{PLACEHOLDER}.example.org:{}/", secure.port());
    let in_label = format!("https://A{}b.example.org:1/", PLACEHOLDER.to_uppercase());
    let (in_path, in_query) = (url.clone() + PLACEHOLDER, format!("{url}?q={PLACEHOLDER}"));
    // `%70` is `p`.
    let rest = &PLACEHOLDER[1..];
    let (escaped, escaped_query) = (format!("{url}%70{rest}"), format!("{url}?%70{rest}"));
    let bearer = format!("Bearer {PLACEHOLDER}, {PLACEHOLDER}");
    let longer = format!("{PLACEHOLDER}-longer");
    let shorter = PLACEHOLDER[..PLACEHOLDER.len() - 1].to_owned();
    for (component, url, name, value, body, fate) in [
        ("a.wasm", &url, "x-token", PLACEHOLDER, "", Replaced(SECRET)),
        ("a.wasm", &url, "X-Token", PLACEHOLDER, "", Replaced(SECRET)),
        (
            "a.wasm",
            &url,
            "x-token",
            &bearer,
            "",
            Replaced("Bearer S3cr3t-0123456789abcdef, S3cr3t-0123456789abcdef\r\n"),
        ),
        (
            "a.wasm",
            &url,
            "x-token",
            &longer,
            "",
            Replaced("S3cr3t-0123456789abcdef-longer\r\n"),
        ),
        ("a.wasm", &url, "x-token", &shorter, "", Text(&shorter)),
        ("a.wasm", &url, "x-token", OTHER_PLACEHOLDER, "", Denied),
        ("a.wasm", &url, "x-other", PLACEHOLDER, "", Denied),
        ("a.wasm", &url, "cookie", PLACEHOLDER, "", Denied),
        ("a.wasm", &url, PLACEHOLDER, "", "", Text(PLACEHOLDER)),
        ("a.wasm", &url, "x-token", BASE64, "", Text(BASE64)),
        ("a.wasm", &url, "x-a", "", PLACEHOLDER, Text(PLACEHOLDER)),
        ("a.wasm", &in_path, "x-a", "", "", Denied),
        ("a.wasm", &escaped, "x-a", "", "", Denied),
        ("a.wasm", &in_query, "x-a", "", "", Denied),
        (
            "a.wasm",
            &escaped_query,
            "x-a",
            "",
            "",
            Text("/?%70laceholder"),
        ),
        ("a.wasm", &with_user, "x-a", "", "", Denied),
        ("a.wasm", &in_host, "x-a", "", "", Denied),
        ("a.wasm", &in_label, "x-a", "", "", Denied),
        ("a.wasm", &second_url, "x-token", PLACEHOLDER, "", Denied),
        ("a.wasm", &plain_url, "x-token", PLACEHOLDER, "", Denied),
        ("a.wasm", &other_name, "x-token", PLACEHOLDER, "", Denied),
        ("a.wasm", &by_address, "x-token", PLACEHOLDER, "", Denied),
        // This component has no value for the secret.
        ("c.wasm", &url, "x-token", PLACEHOLDER, "", Denied),
        (
            "a.wasm",
            &url,
            "x-other",
            "placeholder-of-another-call",
            "",
            Text("placeholder-of-another-call"),
        ),
    ] {
        let request = Request::post(url).header(name, value).body(body).unwrap();
        let what = format!("{component} {url} {name}: {value}");
        secure.received.lock().unwrap().clear();
        let answer = send(&client, component, request).await;
        let received = secure.received();
        assert!(!received.contains(OTHER_SECRET), "{what}: {received}");
        match fate {
            Denied => {
                assert_eq!(answer.failure(), Some(FailureKind::Denied), "{what}");
                answer.why();
                assert_eq!(received, "", "{what}");
            }
            Replaced(text) | Text(text) => {
                assert_eq!((answer.failure(), answer.status()), (None, 200), "{what}");
                assert!(received.contains(text), "{what}: {received}");
                let is_sent = matches!(fate, Replaced(_));
                assert_eq!(received.contains(SECRET), is_sent, "{what}: {received}");
                let names: &[&str] = if is_sent { &["TOKEN"] } else { &[] };
                assert_eq!(answer.outcome.secrets, names, "{what}");
            }
        }
    }
    for server in [&plain, &second] {
        assert_eq!(server.received(), "");
    }
}

#[tokio::test]
async fn replaces_placeholders_in_each_line_of_a_header() {
    let tls = Tls::new();
    let server = server(OK, Some(&tls.acceptor)).await;
    let host = format!("localhost:{}", server.port());
    let secret = SecretUse::new("TOKEN", "x-token", [&host]).unwrap();
    let client = egress(grant_of(&server).secret(secret), Names::local(), &tls);
    let request = Request::get(format!("https://{host}/"))
        .header("x-token", PLACEHOLDER)
        .header("x-token", format!("b {PLACEHOLDER}"));
    let answer = send(&client, "a.wasm", request.body("").unwrap()).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
    let received = server.received();
    assert_eq!(received.matches(SECRET).count(), 2, "{received}");
    assert!(!received.contains(PLACEHOLDER), "{received}");
}

#[tokio::test]
async fn denies_malformed_and_repeated_placeholders() {
    let tls = Tls::new();
    let server = server(OK, Some(&tls.acceptor)).await;
    let client = egress(grant_of(&server), Names::local(), &tls);
    let digits = "0123456789abcdef0123456789abcdef";
    let upper = format!("placeholder-{}", digits.to_uppercase());
    let (longer, without_start) = (format!("{PLACEHOLDER}0"), format!("replacement-{digits}"));
    for (what, placeholders) in [
        ("none", vec![("TOKEN", "")]),
        ("a letter", vec![("TOKEN", "e")]),
        ("a shorter one", vec![("TOKEN", &PLACEHOLDER[1..])]),
        ("a longer one", vec![("TOKEN", &longer)]),
        ("upper case", vec![("TOKEN", &upper)]),
        ("another start", vec![("TOKEN", &without_start)]),
        (
            "one for two secrets",
            vec![("TOKEN", PLACEHOLDER), ("OTHER", PLACEHOLDER)],
        ),
        (
            "two for a secret",
            vec![("TOKEN", PLACEHOLDER), ("TOKEN", OTHER_PLACEHOLDER)],
        ),
    ] {
        let request = get(&format!("https://localhost:{}/", server.port()));
        let outcome = send_with(&client, &placeholders, request).await;
        assert_eq!(outcome.failure.unwrap().kind, FailureKind::Denied, "{what}");
    }
    assert_eq!(server.received(), "");
}

/// Sends a request of `a.wasm` with these placeholders, as escaped code can.
async fn send_with(
    client: &EgressClient,
    placeholders: &[(&str, &str)],
    request: Request<&str>,
) -> Outcome {
    let pairs = placeholders.iter();
    let pairs = pairs.map(|(name, placeholder)| ((*name).to_owned(), (*placeholder).to_owned()));
    let placeholders: Vec<_> = pairs.collect();
    let requester = Requester {
        component: "a.wasm",
        placeholders: &placeholders,
    };
    let request = request.map(|body| Full::new(Bytes::copy_from_slice(body.as_bytes())));
    soon(client.send(requester, request)).await.unwrap().1
}

#[tokio::test]
async fn inserted_secrets_are_not_read_as_placeholders() {
    // The value has the form of a placeholder.
    let (right, wrong) = (
        OTHER_PLACEHOLDER,
        "placeholder-00000000000000000000000000000000",
    );
    let tls = Tls::new();
    let server = server(OK, Some(&tls.acceptor)).await;
    let host = format!("localhost:{}", server.port());
    let secret = SecretUse::new("TOKEN", "x-token", [&host]).unwrap();
    let grant = grant_of(&server).secret(secret);
    let secrets = [("TOKEN", right)];
    let client = egress_with_secrets(1, grant, Names::local(), &tls, &[], &secrets);
    for guess in [right, wrong] {
        let placeholders = [("TOKEN", PLACEHOLDER), ("guess", guess)];
        let request = Request::get(format!("https://{host}/")).header("x-token", PLACEHOLDER);
        let outcome = send_with(&client, &placeholders, request.body("").unwrap()).await;
        assert_eq!(
            (outcome.failure, outcome.secrets),
            (None, vec!["TOKEN".to_owned()])
        );
    }
}

/// The result of a response that contains a secret.
#[derive(Debug, Clone, Copy)]
enum Echo {
    /// There is no response.
    Refused,
    /// The body ends with an error after this text.
    CutAfter(&'static str),
    /// The response is passed on with this body.
    Passed(&'static str),
}

/// Returns the start of a response with these chunks, up to its trailers.
fn chunks(chunks: &[&str]) -> String {
    let chunk = |chunk: &&str| format!("{:x}\r\n{chunk}\r\n", chunk.len());
    let chunks: String = chunks.iter().map(chunk).collect();
    format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-t\r\n\r\n{chunks}0\r\n")
}

#[tokio::test]
async fn servers_cannot_send_a_secret_back() {
    use Echo::{CutAfter, Passed, Refused};
    let letters: Vec<String> = format!("a {SECRET} b").chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let (start, end) = SECRET.split_at(9);
    let head = "HTTP/1.1 200 OK\r\n";
    for (what, answer, echo) in [
        (
            "header",
            format!("{head}location: https://e.org/?t={SECRET}\r\n\r\n"),
            Refused,
        ),
        (
            "header of a redirect",
            format!("HTTP/1.1 302 Found\r\nlocation: /{SECRET}\r\n\r\n"),
            Refused,
        ),
        (
            "name of a header",
            format!("{head}x-{SECRET}-y: 1\r\n\r\n"),
            Refused,
        ),
        (
            "reason phrase",
            format!("HTTP/1.1 200 {SECRET}\r\ncontent-length: 2\r\n\r\nok"),
            Passed("ok"),
        ),
        ("body", format!("{head}\r\n{SECRET}"), CutAfter("")),
        (
            "body of known length",
            format!("{head}content-length: 26\r\n\r\na {SECRET}b"),
            CutAfter(""),
        ),
        (
            "body of HTTP/1.0",
            format!("HTTP/1.0 200 OK\r\n\r\n{SECRET}"),
            CutAfter(""),
        ),
        ("a chunk", chunks(&["a", SECRET]) + "\r\n", CutAfter("")),
        (
            "a chunk after a line",
            chunks(&["a\n", SECRET]) + "\r\n",
            CutAfter("a\n"),
        ),
        (
            "two chunks",
            chunks(&["a\n", start, end]) + "\r\n",
            CutAfter("a\n"),
        ),
        (
            "two chunks with more",
            chunks(&["a ", &format!("b\n {start}"), &format!("{end} c")]) + "\r\n",
            CutAfter("a b\n"),
        ),
        (
            "a chunk for each letter",
            chunks(&letters) + "\r\n",
            CutAfter(""),
        ),
        (
            "start of the secret after many bytes",
            chunks(&[&"a".repeat(64), start, end]) + "\r\n",
            CutAfter("aaaaaaaaa"),
        ),
        (
            "only the start",
            chunks(&["a", start]) + "\r\n",
            Passed("aS3cr3t-01"),
        ),
        (
            "the start, then more",
            chunks(&["a", start, "x"]) + "\r\n",
            Passed("aS3cr3t-01x"),
        ),
        (
            "the start with a known length",
            format!("{head}content-length: 9\r\n\r\n{start}"),
            Passed("S3cr3t-01"),
        ),
        (
            "trailer",
            chunks(&["a"]) + &format!("x-t: {SECRET}\r\n\r\n"),
            CutAfter(""),
        ),
        (
            "name of a trailer",
            chunks(&["a"]) + &format!("{SECRET}: x\r\n\r\n"),
            CutAfter(""),
        ),
        (
            "trailer after the start",
            chunks(&["a", start]) + "x-t: 1\r\n\r\n",
            Passed("aS3cr3t-01"),
        ),
        (
            "no body",
            format!("{head}content-length: 0\r\n\r\n"),
            Passed(""),
        ),
        ("no secret", OK.to_owned(), Passed("hello")),
    ] {
        let tls = Tls::new();
        let server = server(answer, Some(&tls.acceptor)).await;
        let host = format!("localhost:{}", server.port());
        let secret = SecretUse::new("TOKEN", "x-token", [&host]).unwrap();
        let client = egress(grant_of(&server).secret(secret), Names::local(), &tls);
        let request = Request::get(format!("https://{host}/"))
            .header("x-token", PLACEHOLDER)
            .header("te", "trailers");
        let answer = send(&client, "a.wasm", request.body("").unwrap()).await;
        let body = String::from_utf8(answer.body.clone()).unwrap();
        let reason = answer
            .response
            .extensions()
            .get::<hyper::ext::ReasonPhrase>();
        assert!(reason.is_none(), "{what}: {reason:?}");
        match echo {
            Refused => {
                assert_eq!(answer.failure(), Some(FailureKind::Secret), "{what}");
                assert!(answer.why().contains("`TOKEN`"), "{what}");
                let headers = format!("{:?}", answer.response.headers()).to_lowercase();
                assert!(
                    !headers.contains(&SECRET.to_lowercase()),
                    "{what}: {headers}"
                );
                assert_eq!(body, "", "{what}");
            }
            CutAfter(text) => {
                assert_eq!(answer.failure(), None, "{what}");
                assert_eq!((&*body, answer.is_cut), (text, true), "{what}");
            }
            Passed(text) => {
                assert_eq!(answer.failure(), None, "{what}");
                assert_eq!((&*body, answer.is_cut), (text, false), "{what}");
            }
        }
    }
}

/// Returns responses that contain a text, each with the name of the text's place.
fn answers_with(text: &str) -> [(&'static str, String); 5] {
    let head = "HTTP/1.1 200 OK\r\n";
    let (start, end) = text.split_at(9);
    [
        ("header", format!("{head}x-a: a {text}\r\n\r\n")),
        ("name of a header", format!("{head}x-{text}: a\r\n\r\n")),
        ("body", format!("{head}\r\na {text}")),
        ("two chunks", chunks(&["a", start, end]) + "\r\n"),
        ("trailer", chunks(&["a"]) + &format!("x-t: {text}\r\n\r\n")),
    ]
}

#[tokio::test]
async fn no_response_has_a_secret_of_another_request() {
    let tls = Tls::new();
    for secret in [SECRET, OTHER_SECRET] {
        for (place, answer) in answers_with(secret) {
            let server = server(answer, Some(&tls.acceptor)).await;
            let host = format!("localhost:{}", server.port());
            let token = SecretUse::new("TOKEN", "x-token", [&host]).unwrap();
            let grant = grant_of(&server).secret(token);
            let by_name = format!("https://{host}/");
            let issuers = [&*by_name];
            let client = egress_with_issuers(4, grant, Names::local(), &tls, &issuers);
            let other_name = format!("https://api.example.org:{}/", server.port());
            for (component, url, value) in [
                // A request with the other secret, and requests without any.
                ("a.wasm", &by_name, PLACEHOLDER),
                ("a.wasm", &by_name, ""),
                ("c.wasm", &by_name, ""),
                ("a.wasm", &other_name, ""),
            ] {
                let what = format!("{place}: {component} {url} {value} {secret}");
                let request = Request::get(url).header("x-token", value);
                let request = request.header("te", "trailers").body("").unwrap();
                let answer = send(&client, component, request).await;
                let is_refused = answer.failure() == Some(FailureKind::Secret);
                assert!(is_refused || answer.is_cut, "{what}");
                if is_refused {
                    answer.why();
                }
                let body = String::from_utf8(answer.body).unwrap();
                assert!(!body.contains(secret), "{what}: {body}");
                let headers = format!("{:?}", answer.response.headers()).to_lowercase();
                assert!(
                    !headers.contains(&secret.to_lowercase()),
                    "{what}: {headers}"
                );
            }
            let keys = soon(client.fetch_keys(&by_name, 1_000)).await;
            match place {
                // The host gets no headers of these responses.
                "header" | "name of a header" => assert_eq!(keys.unwrap(), b"", "{place}"),
                _ => drop(keys.unwrap_err()),
            }
        }
    }
}

#[tokio::test]
async fn refuses_partial_responses_from_hosts_with_secrets() {
    let tls = Tls::new();
    let partial = "HTTP/1.1 206 Partial Content\r\ncontent-length: 6\r\n\r\nS3cr3t";
    let server = server(partial, Some(&tls.acceptor)).await;
    let host = format!("localhost:{}", server.port());
    let secret = SecretUse::new("TOKEN", "x-token", [&host]).unwrap();
    let with_secret = egress(grant_of(&server).secret(secret), Names::local(), &tls);
    let without = egress(grant_of(&server), Names::local(), &tls);
    let url = format!("https://{host}/");
    let request = |name, value| Request::get(&url).header(name, value).body("").unwrap();
    for name in [
        "range",
        "if-range",
        "If_Range",
        "Request-Range",
        "x-ms-range",
        "a-im",
    ] {
        let answer = send(&with_secret, "a.wasm", request(name, "bytes=0-5")).await;
        assert_eq!(answer.failure(), Some(FailureKind::Denied), "{name}");
        assert!(answer.why().contains("asks for a part"), "{}", answer.why());
    }
    let answer = send(&with_secret, "a.wasm", request("trailer", "x-sum, Range")).await;
    assert_eq!(answer.failure(), Some(FailureKind::Denied));
    assert_eq!(server.received(), "");
    let answer = send(&with_secret, "a.wasm", request("accept-encoding", "gzip")).await;
    assert_eq!(answer.failure(), Some(FailureKind::Secret));
    let received = server.received();
    assert!(
        received.contains("accept-encoding: identity\r\n"),
        "{received}"
    );
    for head in [
        "226 IM Used\r\n",
        "200 OK\r\ncontent-type: Multipart/Byteranges; boundary=a\r\n",
    ] {
        let partial = format!("HTTP/1.1 {head}content-length: 6\r\n\r\nS3cr3t");
        let server = super::server(partial, Some(&tls.acceptor)).await;
        let host = format!("localhost:{}", server.port());
        let secret = SecretUse::new("TOKEN", "x-token", [&host]).unwrap();
        let client = egress(grant_of(&server).secret(secret), Names::local(), &tls);
        let answer = send(&client, "a.wasm", get(&format!("https://{host}/"))).await;
        assert_eq!(answer.failure(), Some(FailureKind::Secret), "{head}");
    }
    let answer = send(&without, "a.wasm", request("range", "bytes=0-5")).await;
    assert_eq!((answer.failure(), answer.status()), (None, 206));
}

#[tokio::test]
async fn held_bytes_do_not_depend_on_secrets() {
    let tls = Tls::new();
    // More than the maximum that is held, then a guess.
    let start = "a".repeat(70);
    for (end, guesses) in [
        (
            String::new(),
            [&SECRET[..9], &SECRET[..22], "xxxxxxxxx", ""],
        ),
        (
            "\n".to_owned(),
            [&SECRET[..9], &SECRET[..22], "xxxxxxxxx", ""],
        ),
    ] {
        for guess in guesses {
            let sent = format!("{start}{guess}{end}");
            let script = Script {
                reads: true,
                answer: format!("HTTP/1.1 200 OK\r\n\r\n{sent}").into(),
                end: End::Wait,
            };
            let server = script_server(script, Some(&tls.acceptor)).await;
            let host = format!("localhost:{}", server.port());
            let secret = SecretUse::new("TOKEN", "x-token", [&host]).unwrap();
            let client = egress(grant_of(&server).secret(secret), Names::local(), &tls);
            // Another component reads the same, and other hosts' responses are not held back.
            let held = if end.is_empty() { 64 } else { 0 };
            for (component, name, held) in [
                ("a.wasm", "localhost", held),
                ("c.wasm", "localhost", held),
                ("a.wasm", "api.example.org", 0),
            ] {
                let request = get(&format!("https://{name}:{}/", server.port()));
                let request = request.map(|_| Full::<Bytes>::default());
                let (response, _) = soon(send_body(&client, component, request)).await.unwrap();
                let mut body = response.into_body();
                let expected = &sent[..sent.len() - held];
                let mut text = String::new();
                while text.len() < expected.len() {
                    let frame = soon(body.frame()).await.unwrap().unwrap();
                    text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
                }
                assert_eq!(text, expected, "{component} {name}");
                let more = tokio::time::timeout(Duration::from_millis(50), body.frame()).await;
                assert!(more.is_err(), "{component} {name}: {more:?}");
            }
        }
    }
}

#[tokio::test]
async fn failures_contain_no_secrets() {
    let tls = Tls::new();
    let grant = NetworkGrant::new().rule("https://*.example.org".parse().unwrap());
    let client = egress(grant, Names::local(), &tls);
    let answer = send(&client, "a.wasm", get("https://tells.example.org/")).await;
    assert_eq!(answer.failure(), Some(FailureKind::Name));
    assert_eq!(
        answer.why(),
        "the explanation contains the secret `TOKEN` of `a.wasm`"
    );
}

#[tokio::test]
async fn servers_cannot_send_unusual_secrets_back() {
    let tls = Tls::new();
    for (secret, answer, is_found) in [
        ("h", OK, true),
        ("x", "HTTP/1.1 200 OK\r\n\r\nhello", false),
        ("hello ", OK, true),
        (" \t", OK, false),
        ("\"a\\b\"", "HTTP/1.1 200 OK\r\n\r\n\"a\\b\"", true),
        ("pässword", "HTTP/1.1 200 OK\r\n\r\nmy pässword", true),
    ] {
        let server = server(answer, Some(&tls.acceptor)).await;
        let host = format!("localhost:{}", server.port());
        let grant = grant_of(&server).secret(SecretUse::new("TOKEN", "x-token", [&host]).unwrap());
        let secrets = [("TOKEN", secret)];
        let client = egress_with_secrets(1, grant, Names::local(), &tls, &[], &secrets);
        let request = Request::get(format!("https://{host}/")).header("x-token", PLACEHOLDER);
        let answer = send(&client, "a.wasm", request.body("").unwrap()).await;
        // A header of the response can contain a secret of one letter.
        let is_refused = answer.failure() == Some(FailureKind::Secret);
        assert_eq!(answer.is_cut || is_refused, is_found, "{secret:?}");
        let received = server.received();
        assert!(received.contains(secret.trim()), "{secret:?} {received}");
        // Responses of other origins are not searched for short secrets. Otherwise, a server could try
        // all short texts, and the guest would see which one is cut off.
        let other_name = format!("https://api.example.org:{}/", server.port());
        let answer = send(&client, "a.wasm", get(&other_name)).await;
        assert_eq!(
            (answer.failure(), answer.is_cut),
            (None, false),
            "{secret:?}"
        );
    }
}
