//! Requests through the process, with test servers and a test resolver.

mod issuers;
mod names;
mod requests;
mod secrets;
mod servers;
mod slots;
mod tls;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::client::{EgressClient, Requester};
use crate::driven::DrivenBody;
use crate::forward::Sender;
use crate::issuer::Issuers;
use crate::message::{Failure, FailureKind, Outcome};
use crate::policy::{NetworkGrant, SecretUse};
use crate::resolve::Resolve;
use crate::secrets::{SecretValue, Secrets};
use crate::serve::serve_at_most;

/// The secret `TOKEN` of `a.wasm`, and its placeholder in the call.
const SECRET: &str = "S3cr3t-0123456789abcdef";
const PLACEHOLDER: &str = "placeholder-0123456789abcdef0123456789abcdef";

/// The secret `OTHER` of `a.wasm`, and its placeholder.
const OTHER_SECRET: &str = "another-secret-of-a.wasm";
const OTHER_PLACEHOLDER: &str = "placeholder-fedcba9876543210fedcba9876543210";

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-own: 1\r\n\r\nhello";

/// The maximum time to wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the rows of a table of `tests/vectors/network.json`.
pub(crate) fn vectors(table: &str) -> Vec<Value> {
    let text = include_str!("../../../tests/vectors/network.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    vectors[table].as_array().unwrap().clone()
}

/// Waits for something that must happen.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.unwrap()
}

/// A resolver of a few names. It returns the answers for a name in order, and repeats the last one.
#[derive(Default)]
struct Names(Mutex<BTreeMap<&'static str, Vec<Vec<SocketAddr>>>>);

impl Names {
    /// Adds an answer for a name. A port of 0 becomes the port of the request.
    fn name(self, name: &'static str, addresses: &[&str]) -> Self {
        let answer = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.0.lock().unwrap().entry(name).or_default().push(answer);
        self
    }

    /// Resolves `localhost`, `api.example.org` and `other.example.org` to this machine.
    fn local() -> Self {
        let names = ["localhost", "api.example.org", "other.example.org"];
        let add = |all: Self, name| all.name(name, &["127.0.0.1:0"]);
        names.into_iter().fold(Self::default(), add)
    }
}

impl Resolve for Arc<Names> {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match name {
            "never.example.org" => std::future::pending().await,
            "tells.example.org" => {
                let why = format!("no address of {}", SECRET.to_lowercase());
                return Err(io::Error::other(why));
            }
            _ => {}
        }
        let mut names = self.0.lock().unwrap();
        let answers = names.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        let answer = match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        };
        let with_port = |address: SocketAddr| match address.port() {
            0 => SocketAddr::new(address.ip(), port),
            _ => address,
        };
        Ok(answer.into_iter().map(with_port).collect())
    }
}

/// The certificate of servers, for `api.example.org` and `localhost`, and the client's trust in it.
struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Tls {
    fn new() -> Self {
        let names = ["api.example.org", "localhost"].map(str::to_owned);
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(names).unwrap();
        let key = signing_key.serialize_der();
        Self::with(&cert, &[&cert], key)
    }

    /// Trusts one certificate, and serves others.
    fn with(trusted: &rcgen::Certificate, served: &[&rcgen::Certificate], key: Vec<u8>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.der().clone()).unwrap();
        let client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let key = PrivateKeyDer::try_from(key).unwrap();
        let chain = served.iter().map(|it| it.der().clone()).collect();
        let server = ServerConfig::builder().with_no_client_auth();
        let server = server.with_single_cert(chain, key).unwrap();
        Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
        }
    }
}

/// The behaviour of a server on each connection.
#[derive(Clone)]
struct Script {
    /// Reads once before it answers.
    reads: bool,
    answer: Vec<u8>,
    end: End,
}

/// The behaviour of a server after its response.
#[derive(Clone)]
enum End {
    Close,
    /// Waits until the client closes the connection.
    Wait,
    /// Sends these bytes until the client closes the connection.
    Repeat(&'static [u8]),
    /// Keeps the connection open, and reads nothing.
    Keep,
}

/// A server that records what it receives.
struct Server {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
    /// An event for each connection that begins, and for each that has ended.
    begun: mpsc::UnboundedReceiver<()>,
    ended: mpsc::UnboundedReceiver<()>,
}

impl Server {
    fn port(&self) -> u16 {
        self.address.port()
    }

    fn received(&self) -> String {
        String::from_utf8_lossy(&self.received.lock().unwrap()).into_owned()
    }
}

/// Starts a server that reads a request, answers it and closes the connection.
async fn server(answer: impl AsRef<[u8]>, tls: Option<&TlsAcceptor>) -> Server {
    let script = Script {
        reads: true,
        answer: answer.as_ref().to_vec(),
        end: End::Close,
    };
    script_server(script, tls).await
}

async fn script_server(script: Script, tls: Option<&TlsAcceptor>) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Arc::new(Mutex::new(Vec::new()));
    let (begin, begun) = mpsc::unbounded_channel();
    let (end, ended) = mpsc::unbounded_channel();
    let (record, tls) = (Arc::clone(&received), tls.cloned());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (record, tls, script) = (Arc::clone(&record), tls.clone(), script.clone());
            let (begin, end) = (begin.clone(), end.clone());
            tokio::spawn(async move {
                let _ = begin.send(());
                let done = match tls {
                    None => play(stream, script, &record).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => play(stream, script, &record).await,
                        Err(error) => Err(error),
                    },
                };
                let _ = end.send(());
                done
            });
        }
    });
    Server {
        address,
        received,
        begun,
        ended,
    }
}

async fn play(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: Script,
    record: &Mutex<Vec<u8>>,
) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    if script.reads {
        let count = stream.read(&mut bytes).await?;
        record.lock().unwrap().extend_from_slice(&bytes[..count]);
    }
    stream.write_all(&script.answer).await?;
    match script.end {
        End::Close => stream.shutdown().await,
        End::Wait => {
            stream.flush().await?;
            while stream.read(&mut bytes).await? > 0 {}
            Ok(())
        }
        End::Repeat(piece) => loop {
            stream.write_all(piece).await?;
        },
        End::Keep => {
            stream.flush().await?;
            std::future::pending().await
        }
    }
}

/// Starts the process as a task, with this grant for `a.wasm` and `c.wasm`.
fn egress(grant: NetworkGrant, names: Names, tls: &Tls) -> EgressClient {
    egress_at_most(64, grant, names, tls)
}

fn egress_at_most(max: u32, grant: NetworkGrant, names: Names, tls: &Tls) -> EgressClient {
    egress_with_issuers(max, grant, names, tls, &[])
}

fn egress_with_issuers(
    max: u32,
    grant: NetworkGrant,
    names: Names,
    tls: &Tls,
    issuers: &[&str],
) -> EgressClient {
    let secrets = [("TOKEN", SECRET), ("OTHER", OTHER_SECRET)];
    egress_with_secrets(max, grant, names, tls, issuers, &secrets)
}

/// Starts the process like [`egress_with_issuers`], with these secrets of `a.wasm` by name.
fn egress_with_secrets(
    max: u32,
    grant: NetworkGrant,
    names: Names,
    tls: &Tls,
    issuers: &[&str],
    secrets: &[(&str, &str)],
) -> EgressClient {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let secrets = secrets.iter().map(|(name, value)| {
        let value = SecretValue(Arc::from(value.as_bytes()));
        (("a.wasm".to_owned(), (*name).to_owned()), value)
    });
    let components = ["a.wasm", "c.wasm"].map(str::to_owned);
    let names = Arc::new(names);
    let resolvers = components.clone().map(|name| (name, Arc::clone(&names)));
    let grants = BTreeMap::from(components.map(|name| (name, grant.clone())));
    let sender = Sender {
        secrets: Arc::new(Secrets::new(secrets.collect(), &grants)),
        grants,
        resolvers: resolvers.into(),
        tls: tls.connector.clone(),
        issuers: self::issuers(issuers, tls),
    };
    let lifetime = ours.try_clone().unwrap();
    tokio::spawn(serve_at_most(
        max,
        theirs,
        sender,
        std::future::pending::<()>(),
    ));
    EgressClient::new(ours.into(), lifetime.into(), max as usize)
}

/// Returns issuers with these addresses of their keys, on this machine.
fn issuers(addresses: &[&str], tls: &Tls) -> Issuers<Arc<Names>> {
    let addresses = addresses.iter();
    Issuers {
        resolvers: addresses
            .map(|address| ((*address).to_owned(), Arc::new(Names::local())))
            .collect(),
        tls: tls.connector.clone(),
    }
}

/// Returns a grant for one server by all its names, with and without TLS.
fn grant_of(server: &Server) -> NetworkGrant {
    let grant = NetworkGrant::new().private(server.address.to_string().parse().unwrap());
    let hosts = ["localhost", "*.example.org", "127.0.0.1"];
    let rule = |grant: NetworkGrant, host: &str| {
        let rule = |scheme| format!("{scheme}://{host}:{}", server.port());
        let grant = grant.rule(rule("https").parse().unwrap());
        grant.rule(rule("http").parse().unwrap())
    };
    hosts.into_iter().fold(grant, rule)
}

/// The parts of a response that a guest gets.
struct Answer {
    outcome: Outcome,
    response: Response<()>,
    body: Vec<u8>,
    /// True if the body failed after these bytes.
    is_cut: bool,
}

impl Answer {
    fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    fn failure(&self) -> Option<FailureKind> {
        self.outcome.failure.as_ref().map(|failure| failure.kind)
    }

    /// Returns the explanation of the failure, which must be one line without secrets.
    fn why(&self) -> &str {
        let Failure { why, .. } = self
            .outcome
            .failure
            .as_ref()
            .expect("the request did not fail");
        let is_line = !why.is_empty() && why.len() <= 500 && !why.contains(char::is_control);
        assert!(is_line, "{why}");
        for secret in [SECRET, PLACEHOLDER, OTHER_SECRET] {
            let lower = why.to_lowercase();
            assert!(!lower.contains(&secret.to_lowercase()), "{why}");
        }
        why
    }
}

/// Sends a request of a component.
async fn send(client: &EgressClient, component: &str, request: Request<&str>) -> Answer {
    let request = request.map(|body| Full::new(Bytes::copy_from_slice(body.as_bytes())));
    let (response, outcome) = soon(send_body(client, component, request)).await.unwrap();
    let (head, mut body) = response.into_parts();
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    while let Some(frame) = soon(body.frame()).await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => bytes.extend_from_slice(&data),
            Ok(Err(_)) => {}
            Err(_) => is_cut = true,
        }
    }
    Answer {
        outcome,
        response: Response::from_parts(head, ()),
        body: bytes,
        is_cut,
    }
}

async fn send_body<B>(
    client: &EgressClient,
    component: &str,
    request: Request<B>,
) -> io::Result<(Response<DrivenBody>, Outcome)>
where
    B: Body<Data = Bytes, Error = std::convert::Infallible> + Send + Unpin + 'static,
{
    let placeholders = [("TOKEN", PLACEHOLDER), ("OTHER", OTHER_PLACEHOLDER)];
    let placeholders = placeholders.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let requester = Requester {
        component,
        placeholders: &placeholders,
    };
    client.send(requester, request).await
}

fn get(uri: &str) -> Request<&'static str> {
    Request::get(uri).body("").unwrap()
}

/// Polls a body once, and expects no frame.
async fn expect_nothing_more(body: &mut DrivenBody) {
    tokio::select! {
        biased;
        frame = body.frame() => panic!("{frame:?}"),
        () = std::future::ready(()) => {}
    }
}

/// A body that a test sends piece by piece.
struct Pieces(mpsc::UnboundedReceiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|data| Ok(Frame::data(data))))
    }
}

/// A body without end.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16_384])))))
    }
}
