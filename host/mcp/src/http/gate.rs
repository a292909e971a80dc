//! The gate before tools and metrics: names first, then the token. And the
//! count of every answer, refused or not.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    TRANSFER_ENCODING, VARY, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::metrics::Metrics;
use super::peers::{Peers, Refusal};
use super::places::Place;
use super::reply::{busy, closing, refusal};
use super::sessions::LABEL;
use super::token::{Shown, Token};

/// Longest path that a log line has, in characters. Meets: a peer that floods
/// the log.
const LOGGED: usize = 64;

/// Who may pass.
pub(super) struct Gate {
    pub(super) peers: Peers,
    pub(super) token: Option<Token>,
}

/// Lets a request pass, or says why not.
pub(super) async fn admit(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let foreign = match gate.peers.check(request.uri(), request.headers()) {
        Ok(foreign) => foreign.cloned(),
        Err(why) => return refused(why),
    };
    let Some(origin) = foreign else {
        return gate.with_token(request, next).await;
    };
    // A page of another server, which is allowed: its browser asks before, and
    // is told with every answer. It cannot show the token when it asks.
    let mut answer = match *request.method() {
        Method::OPTIONS => preflight(&request),
        _ => gate.with_token(request, next).await,
    };
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from(LABEL));
    headers.append(VARY, HeaderValue::from_static("origin"));
    answer
}

impl Gate {
    async fn with_token(&self, request: Request, next: Next) -> Response {
        let shown = self
            .token
            .as_ref()
            .map(|token| token.shown(request.headers()));
        let challenge = match shown {
            None => return next.run(request).await,
            Some(Shown::Right) => {
                let connection = request.extensions().get::<Arc<Place>>();
                return match connection.is_none_or(|connection| connection.admit()) {
                    true => next.run(request).await,
                    // What is left is for probes.
                    false => closing(busy()),
                };
            }
            Some(Shown::Wrong) => "Bearer error=\"invalid_token\"",
            Some(Shown::Nothing) => "Bearer",
        };
        if let Some(connection) = request.extensions().get::<Arc<Place>>() {
            connection.dismiss();
        }
        let headers = [(WWW_AUTHENTICATE, challenge)];
        let text = "the bearer token is missing or wrong\n";
        (StatusCode::UNAUTHORIZED, headers, text).into_response()
    }
}

fn refused(why: Refusal) -> Response {
    let (status, text) = match why {
        Refusal::NoHost => (StatusCode::BAD_REQUEST, "a request names one host\n"),
        Refusal::Host => (
            StatusCode::FORBIDDEN,
            "this server does not go by that name\n",
        ),
        Refusal::Origin => (StatusCode::FORBIDDEN, "pages of that origin may not ask\n"),
    };
    refusal(status, text)
}

/// What a browser is told that asks what a page may send.
fn preflight(request: &Request) -> Response {
    let mut answer = StatusCode::NO_CONTENT.into_response();
    let headers = answer.headers_mut();
    let methods = HeaderValue::from_static("GET, POST");
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    // Every header: what a tool's arguments add to them is not known here.
    if let Some(asked) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    answer
}

/// Whether a request's body is framed as everybody reads it. Meets: a balancer
/// that takes another part of what is sent for the next request. Where there is
/// a length beside an encoding, hyper reads by the encoding and then closes.
fn is_framed_once(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => true,
        (Some(one), None) => one.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Counts an answer, and logs one that is a refusal.
pub(super) async fn count(metrics: Arc<Metrics>, request: Request, next: Next) -> Response {
    let endpoint = match request.uri().path() {
        "/mcp" => "mcp",
        "/metrics" => "metrics",
        "/healthz" => "healthz",
        "/readyz" => "readyz",
        _ => "other",
    };
    if !matches!(endpoint, "mcp" | "metrics")
        && let Some(connection) = request.extensions().get::<Arc<Place>>()
    {
        // Nobody asks for a token there.
        connection.dismiss();
    }
    let method = request.method().clone();
    let path: String = request.uri().path().chars().take(LOGGED).collect();
    let answer = match is_framed_once(request.headers()) {
        true => next.run(request).await,
        false => closing(refusal(
            StatusCode::BAD_REQUEST,
            "a body is sent as it is, or by `Transfer-Encoding: chunked` alone\n",
        )),
    };
    let status = answer.status();
    metrics.answered(endpoint, status.as_u16());
    if status.is_client_error() || status.is_server_error() {
        tracing::info!("refused {:?} {path:?}: {status}", method.as_str());
    }
    answer
}
