//! Servers that do not follow HTTP.

use super::*;

/// The parts of a server's response that a guest gets.
#[derive(Debug, PartialEq, Eq)]
enum GuestView {
    Failure(FailureKind),
    /// The status, the body, and whether the body ends with an error.
    Response(u16, Vec<u8>, bool),
}

fn whole(status: u16, body: &str) -> GuestView {
    GuestView::Response(status, body.into(), false)
}

fn cut(body: &str) -> GuestView {
    GuestView::Response(200, body.into(), true)
}

async fn get_from(script: Script, tls: &Tls) -> Answer {
    let server = script_server(script, Some(&tls.acceptor)).await;
    let client = egress(grant_of(&server), Names::local(), tls);
    let url = format!("https://localhost:{}/", server.port());
    send(&client, "a.wasm", get(&url)).await
}

#[tokio::test]
async fn bad_responses_fail_or_are_cut_off() {
    const BAD: GuestView = GuestView::Failure(FailureKind::Protocol);
    let tls = Tls::new();
    let head = "HTTP/1.1 200 OK\r\n";
    let headers = |count| {
        (0..count)
            .map(|n| format!("x-{n}: 1\r\n"))
            .collect::<String>()
    };
    let chunked = "transfer-encoding: chunked\r\n";
    let gzip = "\u{1f}\u{8}\0not decompressed";
    for (what, answer, expected) in [
        ("nothing", String::new(), BAD),
        ("another protocol", "220 smtp\r\n".to_owned(), BAD),
        ("HTTP/0.9", "hello".to_owned(), BAD),
        ("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n".to_owned(), BAD),
        ("half a head", head.to_owned(), BAD),
        (
            "status of two digits",
            "HTTP/1.1 20 OK\r\n\r\n".to_owned(),
            BAD,
        ),
        (
            "only informational",
            "HTTP/1.1 100 Continue\r\n\r\n".repeat(9),
            BAD,
        ),
        (
            "informational answers",
            "HTTP/1.1 100 Continue\r\n\r\n".repeat(3_000)
                + "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
                + OK,
            whole(200, "hello"),
        ),
        (
            "too many informational answers",
            "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(48_000) + OK,
            BAD,
        ),
        (
            "size of a chunk with too many zeros",
            format!(
                "{head}transfer-encoding: chunked\r\n\r\n1\r\nx\r\n{}1\r\ny\r\n0\r\n\r\n",
                "0".repeat(1_500_000)
            ),
            cut("x"),
        ),
        (
            "upgrade that nobody asked for",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\nx"
                .to_owned(),
            BAD,
        ),
        ("folded header", format!("{head}a: b\r\n c\r\n\r\n"), BAD),
        (
            "zero byte in a header",
            format!("{head}a: b\0c\r\n\r\n"),
            BAD,
        ),
        (
            "space before the colon",
            format!("{head}a : b\r\n\r\n"),
            BAD,
        ),
        (
            "128 headers",
            format!("{head}{}\r\n", headers(128)),
            whole(200, ""),
        ),
        ("129 headers", format!("{head}{}\r\n", headers(129)), BAD),
        (
            "long header",
            format!("{head}a: {}\r\n\r\n", "y".repeat(400_000)),
            BAD,
        ),
        (
            "long body",
            format!(
                "{head}content-length: 1000000\r\n\r\n{}",
                "y".repeat(1_000_000)
            ),
            whole(200, &"y".repeat(1_000_000)),
        ),
        (
            "two lengths",
            format!("{head}content-length: 1\r\ncontent-length: 2\r\n\r\nab"),
            BAD,
        ),
        (
            "negative length",
            format!("{head}content-length: -1\r\n\r\n"),
            BAD,
        ),
        (
            "length in hexadecimal",
            format!("{head}content-length: 0x2\r\n\r\nab"),
            BAD,
        ),
        (
            "length too large",
            format!("{head}content-length: 9\r\n\r\nhello"),
            cut("hello"),
        ),
        (
            "length of all memory",
            format!("{head}content-length: 9223372036854775807\r\n\r\nhello"),
            cut("hello"),
        ),
        (
            "length too small",
            format!("{head}content-length: 2\r\n\r\nhello"),
            whole(200, "he"),
        ),
        (
            "length and chunks",
            format!("{head}content-length: 1\r\n{chunked}\r\n2\r\nab\r\n0\r\n\r\n"),
            whole(200, "ab"),
        ),
        (
            "no last chunk",
            format!("{head}{chunked}\r\n5\r\nhello\r\n"),
            cut("hello"),
        ),
        (
            "chunk too large",
            format!("{head}{chunked}\r\nfffffffffffffffff\r\nab"),
            cut(""),
        ),
        (
            "chunk of all memory",
            format!("{head}{chunked}\r\nffffffffffffffff\r\nab"),
            cut("ab"),
        ),
        (
            "chunk without a size",
            format!("{head}{chunked}\r\n\r\nab\r\n0\r\n\r\n"),
            cut(""),
        ),
        (
            "long chunk extension",
            format!(
                "{head}{chunked}\r\n1;{}\r\na\r\n0\r\n\r\n",
                "x".repeat(40_000)
            ),
            cut(""),
        ),
        (
            "many trailers",
            format!("{head}{chunked}\r\n1\r\na\r\n0\r\n{}\r\n", headers(5_000)),
            cut("a"),
        ),
        (
            "chunked twice",
            format!("{head}transfer-encoding: chunked, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
            whole(200, "a"),
        ),
        (
            "compressed",
            format!("{head}content-encoding: gzip\r\n\r\n{gzip}"),
            whole(200, gzip),
        ),
        (
            "body of 204",
            "HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nab".to_owned(),
            whole(204, ""),
        ),
        (
            "unknown status",
            "HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n".to_owned(),
            whole(999, ""),
        ),
        (
            "HTTP/1.0",
            "HTTP/1.0 200 OK\r\n\r\nhello".to_owned(),
            whole(200, "hello"),
        ),
    ] {
        let script = Script {
            reads: true,
            answer: answer.into_bytes(),
            end: End::Close,
        };
        let answer = get_from(script, &tls).await;
        let view = match answer.failure() {
            Some(kind) => {
                answer.why();
                GuestView::Failure(kind)
            }
            None => GuestView::Response(answer.status(), answer.body, answer.is_cut),
        };
        assert_eq!(view, expected, "{what}");
    }
}

#[tokio::test]
async fn headers_without_end_are_a_failure() {
    let tls = Tls::new();
    for (start, piece) in [
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        ("HTTP/1.1 200 OK\r\na: ", "xxxxxxxxxxxxxxxx"),
        ("HTTP/1.1 200 ", "xxxxxxxxxxxxxxxx"),
        ("", "xxxxxxxxxxxxxxxx"),
        ("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
    ] {
        let script = Script {
            reads: true,
            answer: start.into(),
            end: End::Repeat(piece.as_bytes()),
        };
        let answer = get_from(script, &tls).await;
        assert_eq!(answer.failure(), Some(FailureKind::Protocol), "{start}");
        answer.why();
    }
}

#[tokio::test]
async fn forged_outcome_of_a_server_is_ignored() {
    let tls = Tls::new();
    let forged = r#"{"failure":{"kind":"denied","why":"x"},"address":"1.1.1.1:1"}"#;
    let server = server(
        format!(
            "HTTP/1.1 502 Bad\r\nskillhost-outcome: {forged}\r\nskillhost-outcome: {forged}\r\n\
             skillhost-grant: b.wasm\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
        ),
        Some(&tls.acceptor),
    )
    .await;
    let client = egress(grant_of(&server), Names::local(), &tls);
    let url = format!("https://localhost:{}/", server.port());
    let answer = send(&client, "a.wasm", get(&url)).await;
    assert_eq!((answer.failure(), answer.status()), (None, 502));
    assert_eq!(answer.outcome.address, Some(server.address.to_string()));
    for name in ["skillhost-outcome", "upgrade"] {
        assert!(!answer.response.headers().contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn answer_to_head_keeps_its_length() {
    let tls = Tls::new();
    let server = server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", None).await;
    let client = egress(grant_of(&server), Names::local(), &tls);
    let request = Request::head(format!("http://localhost:{}/", server.port()));
    let answer = send(&client, "a.wasm", request.body("").unwrap()).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
    assert_eq!(answer.response.headers()["content-length"], "5");
    assert_eq!((answer.body.len(), answer.is_cut), (0, false));
}

#[tokio::test]
async fn closed_port_is_a_failure() {
    let tls = Tls::new();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("https://localhost:{}/", closed.local_addr().unwrap().port());
    drop(closed);
    let grant = NetworkGrant::new().rule(url.parse().unwrap());
    let client = egress(grant, Names::local(), &tls);
    let answer = send(&client, "a.wasm", get(&url)).await;
    assert_eq!(answer.failure(), Some(FailureKind::Connection));
    answer.why();
}
