//! The gate before tools and metrics: host and origin first, then the client. Every
//! answer is counted here, refusals too, and the bytes that a client sends and gets: all
//! that comes over its connections, and the bodies of answers.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    AUTHORIZATION, TRANSFER_ENCODING, VARY, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use skillhost::Peer;
use skillhost_identity::{CertificateNames, Client, Clients, Identity, Refusal};

use crate::client;
use crate::headers::SESSION_ID;
use crate::metrics::Metrics;
use crate::peers::{PeerError, Peers};
use crate::places::ConnectionPlace;
use crate::reply::{busy, closing, refusal, used_up};

/// The most characters of a path in the log. Guards against: a peer that floods
/// the log.
const MOST_CHARACTERS: usize = 64;

/// The path of the metrics, which tell of all clients.
pub(crate) const METRICS: &str = "/metrics";

/// The checks of the gate.
pub(crate) struct Gate {
    pub(crate) peers: Peers,
    pub(crate) clients: Clients,
}

/// Passes a request on, or refuses it.
pub(crate) async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let cross_origin = match gate.peers.check(request.uri(), request.headers()) {
        Ok(origin) => origin.cloned(),
        Err(why) => return peer_refusal(why),
    };
    let Some(origin) = cross_origin else {
        return gate.with_client(request, next).await;
    };
    // An allowed page of another server: its browser sends a preflight first, which
    // cannot show the token, and needs headers with every answer.
    let mut answer = match *request.method() {
        Method::OPTIONS => preflight(&request),
        _ => gate.with_client(request, next).await,
    };
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from(SESSION_ID));
    headers.append(VARY, HeaderValue::from_static("origin"));
    answer
}

impl Gate {
    async fn with_client(&self, mut request: Request, next: Next) -> Response {
        if self.clients.is_empty() {
            return match own_user(&request) {
                Ok(()) => next.run(request).await,
                Err(refused) => {
                    tracing::info!("refused a request: {refused}");
                    refusal(StatusCode::FORBIDDEN, "this user may not ask\n")
                }
            };
        }
        let mut identified = self.identify(&request);
        if let Err(Refusal::UnknownKey(issuer)) = identified {
            identified = match self.clients.refresh_keys(issuer).await {
                Ok(()) => self.identify(&request),
                Err(refusal) => Err(refusal),
            };
        }
        let refusal = match identified {
            Ok(Identity { client, expiry }) => {
                let connection = request.extensions().get::<Arc<ConnectionPlace>>();
                let count = byte_counter(&client, connection);
                let key = client::key(&client);
                if !connection.is_none_or(|connection| connection.admit(key)) {
                    count(0);
                    // The places that are left are for others.
                    return closing(busy());
                }
                let is_for_metrics = request.uri().path() == METRICS;
                // Whatever it asks for, and before its body is read.
                let counted_request = client.count_request();
                count(0);
                if let Err(why) = counted_request {
                    if is_for_metrics || *request.method() != Method::POST {
                        return used_up(&why);
                    }
                    // It is answered as a message.
                    request.extensions_mut().insert(why);
                }
                if is_for_metrics && !client.reads_metrics() {
                    return forbidden("this client may not read the metrics\n");
                }
                request.extensions_mut().insert(Arc::clone(&client));
                request.extensions_mut().insert(expiry);
                let count_sent = count.clone();
                let request = request.map(|body| watched(body, move |_| count_sent(0)));
                let answer = next.run(request).await;
                return answer.map(|body| watched(body, count));
            }
            Err(refusal) => refusal,
        };
        tracing::info!("refused a request: {refusal}");
        if let Some(connection) = request.extensions().get::<Arc<ConnectionPlace>>() {
            connection.reject();
        }
        self.refuse(&refusal)
    }

    /// Tells a peer how to get a token, as RFC 6750 and RFC 9728 say, and not what is wrong
    /// with this one.
    fn refuse(&self, refusal: &Refusal) -> Response {
        let metadata = self.clients.resource_metadata();
        let (status, error, scopes) = match refusal {
            Refusal::NoToken
            | Refusal::UnknownUser(_)
            | Refusal::UnknownCertificate(_)
            | Refusal::AmbiguousCertificate(_) => (
                StatusCode::UNAUTHORIZED,
                None,
                metadata.map(|it| &it.scopes),
            ),
            // A peer throws away a token that is called wrong, and this one may be right.
            Refusal::TooManyWaiting => return busy(),
            Refusal::NoClient | Refusal::AmbiguousClient => {
                return forbidden("the token is nobody's here\n");
            }
            Refusal::MissingScopes(scopes) => (
                StatusCode::FORBIDDEN,
                Some("insufficient_scope"),
                Some(scopes),
            ),
            _ => {
                let scopes = metadata.map(|it| &it.scopes);
                (StatusCode::UNAUTHORIZED, Some("invalid_token"), scopes)
            }
        };
        let scopes = scopes.filter(|scopes| !scopes.is_empty());
        let parameters = [
            ("error", error.map(str::to_owned)),
            ("resource_metadata", metadata.map(|it| it.address.clone())),
            ("scope", scopes.map(|scopes| scopes.join(" "))),
        ];
        let parameters = parameters.into_iter();
        let parameters =
            parameters.filter_map(|(name, value)| Some(format!("{name}=\"{}\"", value?)));
        let parameters: Vec<String> = parameters.collect();
        let challenge = format!("Bearer {}", parameters.join(", "));
        let challenge = challenge.trim_end().to_owned();
        let text = match status {
            StatusCode::FORBIDDEN => "the token has too few scopes\n",
            _ => "the bearer token is missing or wrong\n",
        };
        (status, [(WWW_AUTHENTICATE, challenge)], text).into_response()
    }

    /// Returns the client that a request shows by its token, or without one by its
    /// connection.
    fn identify(&self, request: &Request) -> Result<Identity, Refusal> {
        let shown = request.headers().get_all(AUTHORIZATION).iter();
        match self.clients.identify(shown.map(HeaderValue::as_bytes)) {
            Err(Refusal::NoToken) => {
                let shown = request.extensions();
                match (shown.get::<Peer>(), shown.get::<CertificateNames>()) {
                    (Some(Peer::Process { user, .. }), _) => self.clients.identify_user(*user),
                    (_, Some(names)) => self.clients.identify_certificate(names),
                    _ => Err(Refusal::NoToken),
                }
            }
            identified => identified,
        }
    }
}

/// Returns a function that counts bytes of an answer for a client, and all that has come over
/// its connection since the last count.
fn byte_counter(
    client: &Arc<Client>,
    connection: Option<&Arc<ConnectionPlace>>,
) -> impl Fn(usize) + Clone + Send + use<> {
    let (client, connection) = (Arc::clone(client), connection.cloned());
    move |answered| {
        let received = connection
            .iter()
            .map(|connection| connection.take_received());
        client.count_bytes(answered + received.sum::<usize>());
    }
}

/// Calls a function with the bytes of each part of a body as it passes, whether the body's
/// end comes or not.
fn watched(body: Body, pass: impl Fn(usize) + Send + 'static) -> Body {
    Body::new(body.inspect_frame(move |frame| pass(frame.data_ref().map_or(0, Bytes::len))))
}

/// Checks who asks a server without clients. Over TCP, that is anybody who reaches it.
fn own_user(request: &Request) -> Result<(), Refusal> {
    match request.extensions().get::<Peer>() {
        Some(Peer::Process { user, .. }) => Clients::check_own_user(*user),
        _ => Ok(()),
    }
}

/// Answers a client that is known, and may not do this.
fn forbidden(text: &'static str) -> Response {
    refusal(StatusCode::FORBIDDEN, text)
}

fn peer_refusal(why: PeerError) -> Response {
    let (status, text) = match why {
        PeerError::NoHost => (StatusCode::BAD_REQUEST, "a request must name one host\n"),
        PeerError::Host => (StatusCode::FORBIDDEN, "this host is not allowed\n"),
        PeerError::Origin => (StatusCode::FORBIDDEN, "this origin is not allowed\n"),
    };
    refusal(status, text)
}

/// Answers a preflight: what a page may send.
fn preflight(request: &Request) -> Response {
    let mut answer = StatusCode::NO_CONTENT.into_response();
    let headers = answer.headers_mut();
    let methods = HeaderValue::from_static("GET, POST");
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    // Every header, because tools' arguments may add some.
    if let Some(asked) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    answer
}

/// Returns whether every reader frames a request's body in the same way.
/// Guards against: a balancer that reads a part of the body as the next request.
/// If there is a length beside an encoding, hyper reads by the encoding and then closes.
fn is_framed_once(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => true,
        (Some(one), None) => one.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Counts an answer, and logs a refusal.
pub(crate) async fn count(metrics: Arc<Metrics>, request: Request, next: Next) -> Response {
    let endpoint = match request.uri().path() {
        "/mcp" => "mcp",
        METRICS => "metrics",
        "/healthz" => "healthz",
        "/readyz" => "readyz",
        _ => "other",
    };
    if !matches!(endpoint, "mcp" | "metrics")
        && let Some(connection) = request.extensions().get::<Arc<ConnectionPlace>>()
    {
        // These paths check no token.
        connection.reject();
    }
    let method = request.method().clone();
    let path: String = request.uri().path().chars().take(MOST_CHARACTERS).collect();
    let answer = match is_framed_once(request.headers()) {
        true => next.run(request).await,
        false => closing(refusal(
            StatusCode::BAD_REQUEST,
            "the only transfer encoding is `Transfer-Encoding: chunked`\n",
        )),
    };
    let status = answer.status();
    metrics.count_answer(endpoint, status.as_u16());
    if status.is_client_error() || status.is_server_error() {
        tracing::info!("refused {:?} {path:?}: {status}", method.as_str());
    }
    answer
}
