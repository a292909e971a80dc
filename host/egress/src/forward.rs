//! Sends one request of the host to its server, if the component's grant allows it.

mod echo;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use self::echo::{CheckedBody, SentSecrets};
use crate::message::{Failure, FailureKind, GRANT, OUTCOME, Outcome, PLACEHOLDER};
use crate::policy::{Denial, NetworkGrant};
use crate::resolve::Resolve;
use crate::rule::NetworkRule;
use crate::target::{Target, TargetError};

/// The longest time to resolve a name, connect, and set up TLS. Guards against: servers and
/// name servers that never answer, for guests with long calls.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 20 });

/// The maximum number of addresses of a name that are tried.
const MAX_TRIES: usize = 4;

/// The maximum number of addresses of a name. Guards against: checks without end.
const MAX_ADDRESSES: usize = 1_000;

/// The maximum bytes of the status and headers of a response, and the maximum number of headers.
/// Guards against: a server that fills the memory.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 128;

/// The minimum bytes of a placeholder. Guards against: texts that are in a request by chance.
const MIN_PLACEHOLDER: usize = 16;

/// Headers that concern one connection, or that this process sets itself.
const DROPPED: [HeaderName; 9] = [
    header::CONNECTION,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers by which some servers replace the method or the path. Guards against: a request that
/// does something else than its rule allows.
const OVERRIDES: [HeaderName; 5] = [
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
];

/// The body of a response to the host.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The value of a secret. It is never shown.
#[derive(Clone)]
pub(crate) struct SecretValue(pub(crate) Arc<[u8]>);

/// The grants, secrets and connections of the process that sends requests.
pub(crate) struct Sender<R> {
    /// The grants, by component file.
    pub(crate) grants: BTreeMap<String, NetworkGrant>,
    /// The values of secrets, by component file and name.
    pub(crate) secrets: BTreeMap<(String, String), SecretValue>,
    pub(crate) resolver: R,
    pub(crate) tls: TlsConnector,
}

impl<R: Resolve> Sender<R> {
    /// Answers a request of the host: with the server's response, or with a failure.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let mut outcome = Outcome::default();
        let mut response = match self.send(request, &mut outcome).await {
            Ok(response) => response,
            Err(failure) => {
                outcome.failure = Some(failure);
                let empty = http_body_util::Empty::new().map_err(|never| match never {});
                let mut response = Response::new(empty.boxed_unsync());
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }
        };
        response.headers_mut().insert(OUTCOME, outcome.header());
        response
    }

    async fn send(
        &self,
        mut request: Request<Incoming>,
        outcome: &mut Outcome,
    ) -> Result<Response<ResponseBody>, Failure> {
        let denied = |why: &dyn ToString| Failure::new(FailureKind::Denied, why.to_string());
        let component = request.headers_mut().remove(GRANT);
        let component = component.and_then(|name| String::from_utf8(name.as_bytes().to_vec()).ok());
        let component = component.unwrap_or_default();
        let grant = self
            .grants
            .get(&component)
            .ok_or_else(|| denied(&Denial::NoRule))?;
        let target = Target::new(request.method(), request.uri()).map_err(|why| denied(&why))?;
        let rule = grant.allow(&target).map_err(|why| denied(&why))?;
        outcome.rule = Some(rule.to_string());
        let headers = request.headers_mut();
        if let Some(name) = OVERRIDES.iter().find(|name| headers.contains_key(*name)) {
            let why = format!("its header `{name}` may replace the method or path");
            return Err(denied(&why));
        }
        let sent = self.insert_secrets(&component, grant, &target, request.headers_mut());
        let sent = sent.map_err(|why| denied(&why))?;
        outcome.secrets = sent.iter().map(|(name, _)| name.clone()).collect();

        let connecting = self.connect(grant, rule, &target, outcome);
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let stream = stream.map_err(|_| {
            let why = format!("the server was not reached in {CONNECT_TIMEOUT:?}");
            Failure::new(FailureKind::Timeout, why)
        })??;
        let mut builder = http1::Builder::new();
        builder
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS);
        let protocol = |error: hyper::Error| Failure::new(FailureKind::Protocol, describe(&error));
        let (mut sender, connection) = builder.handshake(stream).await.map_err(protocol)?;
        let connection = EndedOnDrop(tokio::spawn(async move {
            // The request's future reports the error.
            let _ = connection.await;
        }));
        let is_head = request.method() == Method::HEAD;
        let request = for_server(request, &target).map_err(|why| denied(&why))?;
        let response = sender.send_request(request).await;
        let (mut head, body) = response.map_err(protocol)?.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let why = "the server changed the protocol of the connection";
            return Err(Failure::new(FailureKind::Protocol, why));
        }
        remove_dropped(&mut head.headers);
        if !is_head {
            head.headers.remove(header::CONTENT_LENGTH);
        }
        head.headers.remove(OUTCOME);
        // The end of a body of HTTP/1.0 is that of its connection: the host would take a body that
        // was cut off for a whole one.
        head.version = Version::HTTP_11;
        // They have the reason phrase, which may contain a secret.
        head.extensions.clear();
        let secrets = SentSecrets::new(sent);
        if let Some(name) = secrets.find_in_headers(&head.headers) {
            let why = format!("the headers of the response contain the secret `{name}`");
            return Err(Failure::new(FailureKind::Secret, why));
        }
        let body = CheckedBody::new(body, secrets, target.origin(), connection);
        Ok(Response::from_parts(head, body.boxed_unsync()))
    }

    /// Replaces the placeholders in the headers by the secrets, and returns those.
    ///
    /// Finds a placeholder only as it is: not in base64, so not in Basic authentication.
    fn insert_secrets(
        &self,
        component: &str,
        grant: &NetworkGrant,
        target: &Target,
        headers: &mut HeaderMap,
    ) -> Result<Vec<(String, SecretValue)>, Denial> {
        let placeholders: Vec<HeaderValue> = match headers.entry(PLACEHOLDER) {
            header::Entry::Occupied(entry) => entry.remove_entry_mult().1.collect(),
            header::Entry::Vacant(_) => Vec::new(),
        };
        let mut sent = Vec::new();
        for pair in &placeholders {
            let pair = String::from_utf8_lossy(pair.as_bytes());
            let (name, placeholder) = pair.split_once('=').unwrap_or((&pair, ""));
            let denial = || Denial::Secret(name.to_owned());
            let key = (component.to_owned(), name.to_owned());
            let known = grant.find_secret(name).zip(self.secrets.get(&key));
            if placeholder.len() < MIN_PLACEHOLDER || target.path_and_query().contains(placeholder)
            {
                return Err(denial());
            }
            let mut is_sent = false;
            for (header, text) in headers.iter_mut() {
                if !contains(text.as_bytes(), placeholder.as_bytes()) {
                    continue;
                }
                let allowed = known.filter(|(allowed, _)| allowed.allows(target, header));
                let (_, value) = allowed.ok_or_else(denial)?;
                let replaced = replace(text.as_bytes(), placeholder.as_bytes(), &value.0);
                *text = HeaderValue::from_bytes(&replaced).map_err(|_| denial())?;
                text.set_sensitive(true);
                is_sent = true;
            }
            let value = known.filter(|_| is_sent).map(|(_, value)| value);
            if let Some(value) = value {
                sent.push((name.to_owned(), value.clone()));
            }
        }
        Ok(sent)
    }

    /// Resolves the host, checks every address, and connects to one of them.
    async fn connect(
        &self,
        grant: &NetworkGrant,
        rule: &NetworkRule,
        target: &Target,
        outcome: &mut Outcome,
    ) -> Result<TokioIo<Pin<Box<dyn Stream>>>, Failure> {
        let addresses = match target.address() {
            Some(address) => vec![SocketAddr::new(address, target.port())],
            None => {
                let resolved = self.resolver.resolve(&target.host(), target.port()).await;
                resolved.map_err(|error| Failure::new(FailureKind::Name, error))?
            }
        };
        if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
            let why = format!("the name has {} addresses", addresses.len());
            return Err(Failure::new(FailureKind::Name, why));
        }
        for address in &addresses {
            let allowed = grant.allow_address(rule, *address);
            allowed.map_err(|why| Failure::new(FailureKind::Denied, why))?;
        }
        let mut failure = None;
        for address in addresses.iter().take(MAX_TRIES) {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    outcome.address = Some(address.to_string());
                    let _ = stream.set_nodelay(true);
                    return self.secure(target, stream).await;
                }
                Err(error) => failure = Some(error),
            }
        }
        let why = failure.map(|error| error.to_string()).unwrap_or_default();
        Err(Failure::new(FailureKind::Connection, why))
    }

    /// Sets up TLS, if the request uses it.
    async fn secure(
        &self,
        target: &Target,
        stream: TcpStream,
    ) -> Result<TokioIo<Pin<Box<dyn Stream>>>, Failure> {
        if !target.is_tls() {
            return Ok(TokioIo::new(Box::pin(stream)));
        }
        let host = target.host();
        let name = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name);
        let name = name.map_err(|error| Failure::new(FailureKind::Certificate, error))?;
        match self.tls.connect(name, stream).await {
            Ok(stream) => Ok(TokioIo::new(Box::pin(stream))),
            Err(error) => Err(Failure::new(FailureKind::Certificate, error)),
        }
    }
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// A task that ends when this is dropped.
struct EndedOnDrop(JoinHandle<()>);

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the request as the server gets it.
fn for_server(
    request: Request<Incoming>,
    target: &Target,
) -> Result<Request<Incoming>, TargetError> {
    let (mut head, body) = request.into_parts();
    remove_dropped(&mut head.headers);
    // That of the body is set again.
    head.headers.remove(header::CONTENT_LENGTH);
    let host = HeaderValue::try_from(target.authority()).map_err(|_| TargetError::Host)?;
    head.headers.insert(header::HOST, host);
    head.uri = Uri::try_from(target.path_and_query()).map_err(|_| TargetError::Path)?;
    Ok(Request::from_parts(head, body))
}

fn remove_dropped(headers: &mut HeaderMap) {
    for name in &DROPPED {
        headers.remove(name);
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

fn replace(bytes: &[u8], part: &[u8], new: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(start) = memchr::memmem::find(rest, part) {
        replaced.extend_from_slice(&rest[..start]);
        replaced.extend_from_slice(new);
        rest = &rest[start + part.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}

fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
