//! Requests through the process, with servers and a resolver of the tests' own.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::client::{EgressClient, Origin};
use crate::forward::{SecretValue, Sender};
use crate::message::{FailureKind, Outcome};
use crate::policy::{NetworkGrant, SecretUse};
use crate::resolve::Resolve;
use crate::serve::serve;

/// A resolver of a few names. A name without addresses here does not exist.
struct Names(BTreeMap<&'static str, Vec<SocketAddr>>);

impl Resolve for Names {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let addresses = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        let with_port = |address: &SocketAddr| match address.port() {
            0 => SocketAddr::new(address.ip(), port),
            _ => *address,
        };
        Ok(addresses.iter().map(with_port).collect())
    }
}

const SECRET: &str = "s3cr3t-0123456789abcdef";
const PLACEHOLDER: &str = "placeholder-0123456789abcdef";

/// A server that answers each connection with the same bytes, and keeps what it received.
struct Server {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

/// The certificate and key of servers, for `api.example.org` and `localhost`.
struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

fn tls() -> Tls {
    let names = ["api.example.org".to_owned(), "localhost".to_owned()];
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    Tls {
        connector: TlsConnector::from(Arc::new(client)),
        acceptor: TlsAcceptor::from(Arc::new(server)),
    }
}

async fn server(answer: &'static str, tls: Option<TlsAcceptor>) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (kept, tls) = (Arc::clone(&kept), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => answer_one(stream, answer, &kept).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => answer_one(stream, answer, &kept).await,
                        Err(_) => Ok(()),
                    },
                }
            });
        }
    });
    Server { address, received }
}

async fn answer_one(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    answer: &str,
    kept: &Mutex<Vec<u8>>,
) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    let count = stream.read(&mut bytes).await?;
    kept.lock().unwrap().extend_from_slice(&bytes[..count]);
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// Starts the process as a task, with the grant of `a.wasm`.
fn egress(grant: NetworkGrant, names: Names, tls: &Tls) -> EgressClient {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let value = SecretValue(Arc::from(SECRET.as_bytes()));
    let sender = Sender {
        grants: BTreeMap::from([("a.wasm".to_owned(), grant)]),
        secrets: BTreeMap::from([(("a.wasm".to_owned(), "TOKEN".to_owned()), value)]),
        resolver: names,
        tls: tls.connector.clone(),
    };
    let lifetime = ours.try_clone().unwrap();
    tokio::spawn(serve(theirs, sender, std::future::pending::<()>()));
    EgressClient::new(ours.into(), lifetime.into())
}

/// Sends a request of a component. Returns the outcome, and the status and body.
async fn send(
    client: &EgressClient,
    component: &str,
    request: Request<&str>,
) -> (Outcome, u16, Result<String, String>) {
    let placeholders = [("TOKEN".to_owned(), PLACEHOLDER.to_owned())];
    let origin = Origin {
        component,
        placeholders: &placeholders,
    };
    let request = request.map(|body| Full::new(Bytes::copy_from_slice(body.as_bytes())));
    let (response, outcome) = client.send(origin, request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    let body = body.map(|body| String::from_utf8(body.to_bytes().to_vec()).unwrap());
    (outcome, status, body.map_err(|error| error.to_string()))
}

fn get(uri: &str) -> Request<&'static str> {
    Request::get(uri).body("").unwrap()
}

fn names(entries: &[(&'static str, &[&str])]) -> Names {
    let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Names(
        entries
            .iter()
            .map(|(name, texts)| (*name, addresses(texts)))
            .collect(),
    )
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-own: 1\r\n\r\nhello";

#[tokio::test]
async fn sends_what_a_grant_allows() {
    let tls = tls();
    let server = server(OK, Some(tls.acceptor.clone())).await;
    let to = server.address.to_string();
    let port = server.address.port();
    let secret = SecretUse::new(
        "TOKEN",
        "authorization",
        [format!("api.example.org:{port}")],
    );
    let grant = NetworkGrant::new()
        .rule(
            format!("GET,POST https://api.example.org:{port}/v1/*")
                .parse()
                .unwrap(),
        )
        .private(to.parse().unwrap())
        .secret(secret.unwrap());
    let client = egress(grant, names(&[("api.example.org", &[&to])]), &tls);
    let url = format!("https://API.example.org:{port}/v1/%61/../b?q=1");
    let request = Request::post(&url)
        .header("authorization", format!("Bearer {PLACEHOLDER}"))
        .header("host", "evil.example")
        .header("connection", "upgrade")
        .header("x-other", "2")
        .body("some text")
        .unwrap();
    let (outcome, status, body) = send(&client, "a.wasm", request).await;
    assert_eq!(
        (outcome.failure, status, body.as_deref()),
        (None, 200, Ok("hello"))
    );
    assert_eq!(outcome.address, Some(to));
    assert_eq!(outcome.secrets, ["TOKEN"]);
    assert!(
        outcome
            .rule
            .unwrap()
            .starts_with("GET,POST https://api.example.org:")
    );
    let received = String::from_utf8(server.received.lock().unwrap().clone()).unwrap();
    let received = received.to_lowercase();
    assert!(
        received.starts_with("post /v1/b?q=1 http/1.1\r\n"),
        "{received}"
    );
    for part in [
        format!("authorization: bearer {SECRET}\r\n"),
        format!("host: api.example.org:{port}\r\n"),
        "x-other: 2\r\n".to_owned(),
        "content-length: 9\r\n".to_owned(),
    ] {
        assert!(received.contains(&part), "{part} {received}");
    }
    for part in ["evil", "upgrade", "skillhost", "placeholder"] {
        assert!(!received.contains(part), "{part} {received}");
    }
}

#[tokio::test]
async fn denies_what_no_grant_allows() {
    let tls = tls();
    let server = server(OK, None).await;
    let port = server.address.port();
    let grant = NetworkGrant::new()
        .rule(format!("GET http://localhost:{port}/v1/*").parse().unwrap())
        .rule("https://*.example.org".parse().unwrap())
        .rule("http://*.example.org".parse().unwrap())
        .rule("https://[::1]".parse().unwrap());
    let many = vec!["1.1.1.1:0"; 1_001];
    let names = names(&[
        ("localhost", &["127.0.0.1:0"]),
        ("private.example.org", &["10.0.0.1:0"]),
        ("mixed.example.org", &["1.1.1.1:0", "169.254.169.254:0"]),
        ("mapped.example.org", &["[::ffff:127.0.0.1]:0"]),
        ("public.example.org", &["1.1.1.1:0"]),
        ("many.example.org", &many),
        ("empty.example.org", &[]),
    ]);
    let client = egress(grant, names, &tls);
    let local = |path: &str| format!("http://localhost:{port}{path}");
    for (component, method, uri, kind, why) in [
        (
            "b.wasm",
            "GET",
            local("/v1/a"),
            FailureKind::Denied,
            "no rule",
        ),
        ("", "GET", local("/v1/a"), FailureKind::Denied, "no rule"),
        (
            "a.wasm",
            "POST",
            local("/v1/a"),
            FailureKind::Denied,
            "no rule",
        ),
        (
            "a.wasm",
            "GET",
            local("/v2/a"),
            FailureKind::Denied,
            "no rule",
        ),
        (
            "a.wasm",
            "GET",
            local("/v1/..%2fa"),
            FailureKind::Denied,
            "`..`",
        ),
        (
            "a.wasm",
            "GET",
            "http://127.0.0.1/v1/a".to_owned(),
            FailureKind::Denied,
            "no rule",
        ),
        (
            "a.wasm",
            "GET",
            "http://2130706433/v1/a".to_owned(),
            FailureKind::Denied,
            "the host",
        ),
        (
            "a.wasm",
            "GET",
            "http://u@localhost/v1/a".to_owned(),
            FailureKind::Denied,
            "user name",
        ),
        (
            "a.wasm",
            "TRACE",
            local("/v1/a"),
            FailureKind::Denied,
            "TRACE",
        ),
        (
            "a.wasm",
            "GET",
            "https://private.example.org/".to_owned(),
            FailureKind::Denied,
            "10.0.0.1",
        ),
        (
            "a.wasm",
            "GET",
            "https://mixed.example.org/".to_owned(),
            FailureKind::Denied,
            "169.254",
        ),
        (
            "a.wasm",
            "GET",
            "https://mapped.example.org/".to_owned(),
            FailureKind::Denied,
            "127.0.0.1",
        ),
        (
            "a.wasm",
            "GET",
            "http://public.example.org/".to_owned(),
            FailureKind::Denied,
            "plain",
        ),
        (
            "a.wasm",
            "GET",
            "https://[::1]/".to_owned(),
            FailureKind::Denied,
            "::1",
        ),
        (
            "a.wasm",
            "GET",
            "https://none.example.org/".to_owned(),
            FailureKind::Name,
            "not found",
        ),
        (
            "a.wasm",
            "GET",
            "https://empty.example.org/".to_owned(),
            FailureKind::Name,
            "0 addresses",
        ),
        (
            "a.wasm",
            "GET",
            "https://many.example.org/".to_owned(),
            FailureKind::Name,
            "1001 addresses",
        ),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(&uri)
            .body("")
            .unwrap();
        let (outcome, status, _) = send(&client, component, request).await;
        let failure = outcome
            .failure
            .unwrap_or_else(|| panic!("{method} {uri} was sent"));
        assert_eq!(
            (failure.kind, status),
            (kind, 502),
            "{method} {uri}: {failure:?}"
        );
        assert!(failure.why.contains(why), "{method} {uri}: {failure:?}");
        assert_eq!(outcome.address, None);
    }
    assert!(server.received.lock().unwrap().is_empty());
    let (outcome, status, _) = send(&client, "a.wasm", get(&local("/v1/a"))).await;
    assert_eq!((outcome.failure, status), (None, 200));
}

#[tokio::test]
async fn keeps_secrets_in_their_place() {
    let tls = tls();
    let secure = server(OK, Some(tls.acceptor.clone())).await;
    let plain = server(OK, None).await;
    let echo: &str = Box::leak(
        format!("HTTP/1.1 200 OK\r\n\r\n{}{SECRET}", "x".repeat(20_000)).into_boxed_str(),
    );
    let echo = server(echo, Some(tls.acceptor.clone())).await;
    let header: &str =
        Box::leak(format!("HTTP/1.1 200 OK\r\nx: {SECRET}\r\n\r\n").into_boxed_str());
    let header = server(header, Some(tls.acceptor.clone())).await;
    let ports = [&secure, &plain, &echo, &header].map(|server| server.address.port());
    let hosts = ports.map(|port| format!("localhost:{port}"));
    let mut grant = NetworkGrant::new()
        .secret(SecretUse::new("TOKEN", "x-token", hosts).unwrap())
        .rule(format!("http://localhost:{}", ports[1]).parse().unwrap());
    for port in ports {
        grant = grant.rule(format!("https://localhost:{port}").parse().unwrap());
    }
    grant = grant.rule(
        format!("https://api.example.org:{}", ports[0])
            .parse()
            .unwrap(),
    );
    grant = grant.private(secure.address.to_string().parse().unwrap());
    let addresses = names(&[
        ("localhost", &["127.0.0.1:0"]),
        ("api.example.org", &["127.0.0.1:0"]),
    ]);
    let client = egress(grant, addresses, &tls);
    let url = |scheme: &str, port: u16| format!("{scheme}://localhost:{port}/");
    let other = format!("https://api.example.org:{}/", ports[0]);
    let in_path = format!("{}{PLACEHOLDER}", url("https", ports[0]));
    let denied = Some(FailureKind::Denied);
    for (uri, name, failure) in [
        (url("https", ports[0]), "x-token", None),
        (url("https", ports[0]), "X-Token", None),
        (url("https", ports[0]), "x-other", denied),
        (url("http", ports[1]), "x-token", denied),
        (other, "x-token", denied),
        (in_path, "x-none", denied),
        (url("https", ports[3]), "x-token", Some(FailureKind::Secret)),
    ] {
        let value = if name == "x-none" { "" } else { PLACEHOLDER };
        let request = Request::get(&uri).header(name, value).body("").unwrap();
        let (outcome, ..) = send(&client, "a.wasm", request).await;
        assert_eq!(
            outcome.failure.map(|failure| failure.kind),
            failure,
            "{uri} {name}"
        );
    }
    let request = Request::get(url("https", ports[2])).header("x-token", PLACEHOLDER);
    let (outcome, status, body) = send(&client, "a.wasm", request.body("").unwrap()).await;
    assert_eq!((outcome.failure, status), (None, 200));
    body.unwrap_err();
    // A placeholder of another call is only a text.
    let request =
        Request::get(url("https", ports[0])).header("x-other", "placeholder-of-another-call");
    let (outcome, status, _) = send(&client, "a.wasm", request.body("").unwrap()).await;
    assert_eq!(
        (outcome.failure, status, outcome.secrets.len()),
        (None, 200, 0)
    );
    assert!(plain.received.lock().unwrap().is_empty());
}

#[tokio::test]
async fn reports_bad_servers() {
    let tls = tls();
    let unknown = self::tls();
    let long: &str = Box::leak(
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(400_000)).into_boxed_str(),
    );
    for (answer, acceptor, host, expected) in [
        (
            OK,
            Some(unknown.acceptor.clone()),
            "localhost",
            Some(FailureKind::Certificate),
        ),
        (
            OK,
            Some(tls.acceptor.clone()),
            "other.example.org",
            Some(FailureKind::Certificate),
        ),
        (OK, None, "localhost", Some(FailureKind::Certificate)),
        (
            "",
            Some(tls.acceptor.clone()),
            "localhost",
            Some(FailureKind::Protocol),
        ),
        (
            "220 smtp\r\n",
            Some(tls.acceptor.clone()),
            "localhost",
            Some(FailureKind::Protocol),
        ),
        (
            long,
            Some(tls.acceptor.clone()),
            "localhost",
            Some(FailureKind::Protocol),
        ),
        (OK, Some(tls.acceptor.clone()), "localhost", None),
    ] {
        let server = server(answer, acceptor).await;
        let port = server.address.port();
        let grant = NetworkGrant::new()
            .rule(format!("https://{host}:{port}").parse().unwrap())
            .private(server.address.to_string().parse().unwrap());
        let names = names(&[
            ("localhost", &["127.0.0.1:0"]),
            ("other.example.org", &["127.0.0.1:0"]),
        ]);
        let client = egress(grant, names, &tls);
        let (outcome, ..) = send(&client, "a.wasm", get(&format!("https://{host}:{port}/"))).await;
        let failure = outcome.failure.map(|failure| failure.kind);
        assert_eq!(failure, expected, "{host} {answer:.30}");
    }
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("https://localhost:{}/", closed.port());
    let grant = NetworkGrant::new().rule(url.parse().unwrap());
    let client = egress(grant, names(&[("localhost", &["127.0.0.1:0"])]), &tls);
    let (outcome, ..) = send(&client, "a.wasm", get(&url)).await;
    assert_eq!(
        outcome.failure.map(|failure| failure.kind),
        Some(FailureKind::Connection)
    );
}

#[tokio::test]
async fn cut_body_is_an_error() {
    let tls = tls();
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let server = server(answer, Some(tls.acceptor.clone())).await;
        let url = format!("https://localhost:{}/", server.address.port());
        let grant = NetworkGrant::new().rule(url.parse().unwrap());
        let client = egress(grant, names(&[("localhost", &["127.0.0.1:0"])]), &tls);
        let (outcome, status, body) = send(&client, "a.wasm", get(&url)).await;
        assert_eq!((outcome.failure, status), (None, 200));
        body.unwrap_err();
    }
}
