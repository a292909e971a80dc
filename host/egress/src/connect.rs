//! Connects to servers, and sends requests to them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::driven::{self, DrivenBody};
use crate::head::HeadLimit;
use crate::message::{Failure, FailureKind, Outcome};
use crate::policy::Denial;
use crate::resolve::Resolve;
use crate::target::Target;

/// The longest time to resolve a name, connect, and set up TLS. Guards against: long calls that
/// wait for a server or name server that never answers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 20 });

/// The maximum number of a name's addresses that are tried.
const MAX_TRIES: usize = 4;

/// The longest time to connect to an address before the next one is tried. The last one has all the
/// time that is left. Guards against: an address that never answers, while others of its name do.
///
/// Linux repeats its first packet after one second and after three, and each may be lost.
const TRY_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 4_000 });

/// The maximum number of addresses of a name. Guards against: endless checks.
const MAX_ADDRESSES: usize = 1_000;

/// The maximum bytes of the status and headers of a response, and the maximum number of headers.
/// Guards against: a server that fills the memory.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 128;

/// The maximum bytes of hyper's buffer for a head. A longer head is an error. One read of a body
/// takes at most twice as many bytes, because hyper uses its old buffers again.
///
/// With 64 KiB, a body of 100 MiB takes 1.3 times as long.
const READ_BYTES: usize = 512 << 10;

/// The maximum bytes that are received before the final head is complete, and before each frame of
/// the body: of TLS messages, informational heads, heads of chunks, and the part of the body that
/// is read with them. Guards against: a server that keeps the process busy with such bytes.
const MAX_HEADS_BYTES: usize = MAX_HEAD_BYTES + 2 * READ_BYTES;

/// A connection to a server, over TLS if the target uses TLS.
pub(crate) struct Connection {
    stream: Pin<Box<dyn Stream>>,
    /// The number of bytes from the server since the last progress of the response.
    received: Arc<AtomicUsize>,
}

trait Stream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// Resolves the host of a target, checks every address, and connects to one of them.
pub(crate) async fn connect(
    target: &Target,
    resolver: &impl Resolve,
    tls: &TlsConnector,
    check: impl Fn(SocketAddr) -> Result<(), Denial>,
    outcome: &mut Outcome,
) -> Result<Connection, Failure> {
    let connecting = async {
        let stream = connect_tcp(target, resolver, check, outcome).await?;
        secure(target, tls, stream).await
    };
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
    connected.map_err(|_| {
        let why = format!("the server was not reached in {CONNECT_TIMEOUT:?}");
        Failure::new(FailureKind::Timeout, why)
    })?
}

async fn connect_tcp(
    target: &Target,
    resolver: &impl Resolve,
    check: impl Fn(SocketAddr) -> Result<(), Denial>,
    outcome: &mut Outcome,
) -> Result<TcpStream, Failure> {
    let addresses = match target.address() {
        Some(address) => vec![SocketAddr::new(address, target.port())],
        None => {
            let resolved = resolver.resolve(&target.host(), target.port()).await;
            resolved.map_err(|error| Failure::new(FailureKind::Name, error))?
        }
    };
    if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
        let why = format!(
            "the name resolves to {} addresses, but 1 to {MAX_ADDRESSES} are allowed",
            addresses.len()
        );
        return Err(Failure::new(FailureKind::Name, why));
    }
    for address in &addresses {
        check(*address).map_err(|why| Failure::new(FailureKind::Denied, why))?;
    }
    let mut failure = None;
    let mut tried = addresses.iter().take(MAX_TRIES).peekable();
    while let Some(address) = tried.next() {
        let is_last = tried.peek().is_none();
        // The caller limits the time of all.
        let time = if is_last { Duration::MAX } else { TRY_TIMEOUT };
        let connected = tokio::time::timeout(time, TcpStream::connect(address)).await;
        match connected.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(stream) => {
                outcome.address = Some(address.to_string());
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => failure = Some(error),
        }
    }
    let why = failure.map(|error| error.to_string()).unwrap_or_default();
    Err(Failure::new(FailureKind::Connection, why))
}

/// Sets up TLS, if the target uses it.
async fn secure(
    target: &Target,
    tls: &TlsConnector,
    stream: TcpStream,
) -> Result<Connection, Failure> {
    if !target.is_tls() {
        return Ok(Connection::over(stream));
    }
    let host = target.host();
    let name = host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(name);
    let name = name.map_err(|error| Failure::new(FailureKind::Certificate, error))?;
    let stream = HeadLimit::new(stream, MAX_HEADS_BYTES);
    let received = stream.received();
    match tls.connect(name, stream).await {
        Ok(stream) => Ok(Connection {
            stream: Box::pin(stream),
            received,
        }),
        Err(error) => Err(Failure::new(FailureKind::Certificate, explain(&error))),
    }
}

/// Explains why TLS was not set up. Repeats no text of the certificate, because the server chooses
/// it.
fn explain(error: &io::Error) -> String {
    use rustls::CertificateError as Invalid;
    let source = error.get_ref().and_then(|source| source.downcast_ref());
    let Some(rustls::Error::InvalidCertificate(invalid)) = source else {
        return error.to_string();
    };
    let why = match invalid {
        Invalid::NotValidForName | Invalid::NotValidForNameContext { .. } => {
            "it is not valid for the name of the host"
        }
        Invalid::Expired | Invalid::ExpiredContext { .. } => "it has expired",
        Invalid::NotValidYet | Invalid::NotValidYetContext { .. } => "it is not valid yet",
        Invalid::InvalidPurpose | Invalid::InvalidPurposeContext { .. } => "it is not for servers",
        Invalid::UnknownIssuer => "no trusted authority signed it",
        Invalid::BadSignature => "its signature is wrong",
        _ => "it is malformed or of an unknown kind",
    };
    format!("invalid peer certificate: {why}")
}

impl Connection {
    /// Makes a connection over a stream that is ready for requests.
    pub(crate) fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let stream = HeadLimit::new(Box::pin(stream), MAX_HEADS_BYTES);
        let received = stream.received();
        Self {
            stream: Box::pin(stream),
            received,
        }
    }

    /// Sends a request, and returns the response.
    pub(crate) async fn exchange<B>(
        self,
        mut request: Request<B>,
    ) -> Result<Response<DrivenBody>, Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(READ_BYTES).max_headers(MAX_HEADERS);
        // Otherwise, a server that ignores a request's body could read it as the next request.
        let close = HeaderValue::from_static("close");
        request.headers_mut().insert(header::CONNECTION, close);
        let protocol = |error: hyper::Error| Failure::new(FailureKind::Protocol, describe(&error));
        let stream = TokioIo::new(self.stream);
        let response = driven::exchange(&builder, stream, request, ()).await;
        let response = response.map_err(protocol)?;
        self.received.store(0, Ordering::Relaxed);
        let headers = response.headers().iter();
        let head: usize = headers
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if head > MAX_HEAD_BYTES {
            let why = format!("the headers have {head} bytes, more than {MAX_HEAD_BYTES}");
            return Err(Failure::new(FailureKind::Protocol, why));
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let why = "the server changed the protocol of the connection";
            return Err(Failure::new(FailureKind::Protocol, why));
        }
        Ok(response.map(|body| body.reset_at_frames(self.received)))
    }
}

fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
