//! The gate before MCP and the metrics: checks host and origin first, then the client. Counts every
//! response, and the bytes that a client sends and receives: all bytes from its connections, and
//! the bodies of its responses.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    AUTHORIZATION, EXPECT, RETRY_AFTER, TRANSFER_ENCODING, VARY, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body_util::BodyExt as _;
use skillhost::Peer;
use skillhost_identity::{CertificateNames, Client, Clients, Identity, Refusal};
use tokio_util::sync::CancellationToken;

use crate::body::{self, SharedBody};
use crate::client;
use crate::headers::SESSION_ID;
use crate::host_check::{HostCheck, HostCheckError};
use crate::metrics::Metrics;
use crate::reply::{
    and_close, busy, over_budget, refusal, refusal_into_error, shutting_down, try_again,
};
use crate::slots::ConnectionSlot;

/// The maximum number of characters of a method or path in the log. Guards against: a peer that
/// floods the log.
const MAX_LOGGED_CHARS: usize = 64;

/// The path of the metrics, which cover all clients.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// The checks before a request is answered.
pub(crate) struct Gate {
    pub(crate) host_check: Arc<HostCheck>,
    pub(crate) clients: Clients,
}

/// The client whose request a response answers.
#[derive(Clone)]
struct ForClient(Arc<Client>);

/// Passes a request on, or refuses it.
pub(crate) async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let cross_origin = match gate.host_check.check(request.uri(), request.headers()) {
        Ok(origin) => origin.cloned(),
        Err(error) => return host_refusal(error),
    };
    let Some(origin) = cross_origin else {
        return gate.with_client(request, next).await;
    };
    // The page has another origin, which is allowed. Its browser first sends a preflight without
    // the token, and needs CORS headers in every response.
    let mut response = match *request.method() {
        Method::OPTIONS => preflight(&request),
        _ => gate.with_client(request, next).await,
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    for exposed in [SESSION_ID, WWW_AUTHENTICATE, RETRY_AFTER] {
        headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from(exposed));
    }
    headers.append(VARY, HeaderValue::from_static("origin"));
    response
}

impl Gate {
    /// Passes a request on if its client may send it.
    async fn with_client(&self, request: Request, next: Next) -> Response {
        if self.clients.is_empty() {
            return match check_own_user(&request) {
                Ok(()) => next.run(request).await,
                Err(refused) => {
                    tracing::info!("refused a request: {refused}");
                    refusal(StatusCode::FORBIDDEN, "this user may not send requests\n")
                }
            };
        }
        let mut identity = self.identify(&request);
        if let Err(Refusal::UnknownKey(issuer)) = identity {
            identity = match self.clients.refresh_keys(issuer).await {
                Ok(()) => self.identify(&request),
                Err(refusal) => Err(refusal),
            };
        }
        match identity {
            Ok(identity) => {
                let client = ForClient(Arc::clone(&identity.client));
                let mut response = admit_client(identity, request, next).await;
                response.extensions_mut().insert(client);
                response
            }
            Err(refusal) => {
                tracing::info!("refused a request: {refusal}");
                self.refuse(&refusal)
            }
        }
    }

    /// Refuses a request. The response says how to get a token (RFC 6750 and RFC 9728), but not
    /// what is wrong with the request's token.
    fn refuse(&self, refusal: &Refusal) -> Response {
        let metadata = self.clients.resource_metadata();
        let (status, error, scopes) = match refusal {
            Refusal::NoToken
            | Refusal::UnknownUser(_)
            | Refusal::UnknownCertificate(_)
            | Refusal::AmbiguousCertificate(_) => (
                StatusCode::UNAUTHORIZED,
                None,
                metadata.map(|metadata| &metadata.scopes),
            ),
            // A client discards a token that is called invalid, and this one may be valid.
            Refusal::TooManyWaiting | Refusal::UnreadableKeys => {
                return try_again("the issuer's keys cannot be read now; try again\n");
            }
            Refusal::NoClient | Refusal::AmbiguousClient => {
                return forbidden("the token belongs to no client\n");
            }
            Refusal::MissingScopes(scopes) => (
                StatusCode::FORBIDDEN,
                Some("insufficient_scope"),
                Some(scopes),
            ),
            _ => {
                let scopes = metadata.map(|metadata| &metadata.scopes);
                (StatusCode::UNAUTHORIZED, Some("invalid_token"), scopes)
            }
        };
        let scopes = scopes.filter(|scopes| !scopes.is_empty());
        let parameters = [
            ("error", error.map(str::to_owned)),
            (
                "resource_metadata",
                metadata.map(|metadata| metadata.address.clone()),
            ),
            ("scope", scopes.map(|scopes| scopes.join(" "))),
        ];
        let parameters: Vec<String> = parameters
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}=\"{}\"", value?)))
            .collect();
        let challenge = format!("Bearer {}", parameters.join(", "));
        let challenge = challenge.trim_end().to_owned();
        let text = match status {
            StatusCode::FORBIDDEN => "the token has too few scopes\n",
            _ => "the bearer token is missing or wrong\n",
        };
        (status, [(WWW_AUTHENTICATE, challenge)], text).into_response()
    }

    /// Finds the client of a request by its token or, if it has none, by its connection.
    fn identify(&self, request: &Request) -> Result<Identity, Refusal> {
        let headers = request.headers().get_all(AUTHORIZATION).iter();
        match self.clients.identify(headers.map(HeaderValue::as_bytes)) {
            Err(Refusal::NoToken) => {
                let connection = request.extensions();
                match (
                    connection.get::<Peer>(),
                    connection.get::<CertificateNames>(),
                ) {
                    (Some(Peer::Process { user, .. }), _) => self.clients.identify_user(*user),
                    (_, Some(names)) => self.clients.identify_certificate(names),
                    _ => Err(Refusal::NoToken),
                }
            }
            identity => identity,
        }
    }
}

/// Passes a client's request on, within its budget.
async fn admit_client(identity: Identity, mut request: Request, next: Next) -> Response {
    let Identity { client, expiry } = identity;
    let slot = request.extensions().get::<Arc<ConnectionSlot>>();
    let count_bytes = byte_counter(&client, slot);
    let key = client::key(&client);
    if !slot.is_none_or(|slot| slot.protect_for(key)) {
        count_bytes(0);
        // The remaining slots are for other peers.
        return and_close(busy("connections"));
    }
    let is_for_metrics = request.uri().path() == METRICS_PATH;
    // Counts every request, before its body is read.
    let counted_request = client.count_request();
    count_bytes(0);
    if let Err(error) = counted_request {
        if is_for_metrics || *request.method() != Method::POST {
            return over_budget(&error);
        }
        // The endpoint refuses the request, because the refusal needs the id of its message.
        request.extensions_mut().insert(error);
    }
    if is_for_metrics && !client.reads_metrics() {
        return forbidden("this client may not read the metrics\n");
    }
    request.extensions_mut().insert(Arc::clone(&client));
    request.extensions_mut().insert(expiry);
    let count_received = count_bytes.clone();
    let request = request.map(|body| inspect(body, move |_| count_received(0)));
    let response = next.run(request).await;
    response.map(|body| inspect(body, count_bytes))
}

/// Returns a function that counts bytes for a client: the bytes of a response, which are its
/// argument, and all bytes that the connection has received since the last count.
fn byte_counter(
    client: &Arc<Client>,
    slot: Option<&Arc<ConnectionSlot>>,
) -> impl Fn(usize) + Clone + Send + use<> {
    let (client, slot) = (Arc::clone(client), slot.cloned());
    move |sent| {
        let received = slot.as_ref().map_or(0, |slot| slot.take_received());
        client.count_bytes(sent + received);
    }
}

/// Calls a function with the length of each part of a body as it passes, even if the body never
/// completes.
fn inspect(body: Body, on_part: impl Fn(usize) + Send + 'static) -> Body {
    Body::new(body.inspect_frame(move |frame| on_part(frame.data_ref().map_or(0, Bytes::len))))
}

/// Checks the user who sends a request to a server without clients. Over TCP, everybody may send.
fn check_own_user(request: &Request) -> Result<(), Refusal> {
    match request.extensions().get::<Peer>() {
        Some(Peer::Process { user, .. }) => Clients::check_own_user(*user),
        _ => Ok(()),
    }
}

/// Refuses a request that its client may not send.
fn forbidden(text: &'static str) -> Response {
    refusal(StatusCode::FORBIDDEN, text)
}

fn host_refusal(error: HostCheckError) -> Response {
    let (status, text) = match error {
        HostCheckError::NoHost => (StatusCode::BAD_REQUEST, "a request must name one host\n"),
        HostCheckError::Host => (StatusCode::FORBIDDEN, "this host is not allowed\n"),
        HostCheckError::Origin => (StatusCode::FORBIDDEN, "this origin is not allowed\n"),
    };
    refusal(status, text)
}

/// Answers a preflight with the methods and headers that a page may send.
fn preflight(request: &Request) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST");
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    // Allows every header, because clients also send arguments in headers, if a tool's schema asks
    // for it with `x-mcp-header`.
    if let Some(requested) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
    }
    response
}

/// Returns whether every reader finds the same end of a request's body. Guards against: a balancer
/// that mistakes a part of the body for the next request.
///
/// If a request has both an encoding and a length, hyper uses the encoding and closes the
/// connection after the response.
fn has_unambiguous_framing(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => true,
        (Some(encoding), None) => encoding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Discards the rest of a refused request's body while the refusal is sent. Counts its bytes for
/// the request's client, if it has one.
fn discard(body: SharedBody, slot: Option<Arc<ConnectionSlot>>, client: Option<ForClient>) {
    let on_piece = move || {
        let Some(slot) = &slot else { return };
        slot.set_read();
        match &client {
            Some(ForClient(client)) => client.count_bytes(slot.take_received()),
            None => slot.forget_received(),
        }
    };
    tokio::spawn(body::discard(body, on_piece));
}

/// Counts a response, and logs a refusal. Refuses the request when `abort` is cancelled, whatever
/// it waits for.
pub(crate) async fn count(
    metrics: Arc<Metrics>,
    abort: CancellationToken,
    request: Request,
    next: Next,
) -> Response {
    let endpoint = match request.uri().path() {
        "/mcp" => "mcp",
        METRICS_PATH => "metrics",
        "/healthz" => "healthz",
        "/readyz" => "readyz",
        _ => "other",
    };
    let slot = request.extensions().get::<Arc<ConnectionSlot>>().cloned();
    let logged = |text: &str| -> String { text.chars().take(MAX_LOGGED_CHARS).collect() };
    let method = logged(request.method().as_str());
    let path = logged(request.uri().path());
    let expects_continue = request.headers().contains_key(EXPECT);
    let (parts, body) = request.into_parts();
    let body = SharedBody::new(body);
    let request = Request::from_parts(parts, Body::new(body.clone()));
    let response = if has_unambiguous_framing(request.headers()) {
        tokio::select! {
            // Prefers the refusal of the endpoint, which has the id of the message.
            biased;
            response = next.run(request) => response,
            () = abort.cancelled() => shutting_down(),
        }
    } else {
        and_close(refusal(
            StatusCode::BAD_REQUEST,
            "the only supported transfer encoding is `chunked`\n",
        ))
    };
    let client = response.extensions().get::<ForClient>().cloned();
    if let Some(slot) = slot.as_ref().filter(|_| client.is_none()) {
        slot.forget_client();
    }
    let response = if endpoint == "mcp" {
        refusal_into_error(response, || None).await
    } else {
        response
    };
    let status = response.status();
    metrics.count_response(endpoint, status.as_u16());
    if status.is_client_error() || status.is_server_error() {
        tracing::info!("refused {method:?} {path:?}: {status}");
        // A peer that was too slow gets no more time, and a shutdown does not wait. The thread for
        // probes reads no bodies.
        let may_continue =
            endpoint == "mcp" && status != StatusCode::REQUEST_TIMEOUT && !abort.is_cancelled();
        if may_continue && !body.is_end_stream() {
            discard(body, slot, client);
            if expects_continue {
                // After the refusal, the peer may send its next request instead of the body.
                return and_close(response);
            }
        }
    }
    response
}
