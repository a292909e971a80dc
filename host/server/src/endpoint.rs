//! `/mcp`: reads a request's body within its bounds, hands it to rmcp, and holds
//! what the request takes until the last byte of the answer is written.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use skillhost::internal::RawJson;
use skillhost_identity::{Client, Expiry, ShareError};
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use crate::answer::{AnswerBody, RequestHold, at_end, in_time};
use crate::answer_bytes::AnswerBytes;
use crate::headers::{self, SESSION_ID};
use crate::places::ConnectionPlace;
use crate::quota::{QuotaHolder, RequestQuota};
use crate::reply::{busy, closing, refusal, used_up};
use crate::sessions::{MessageKind, Sessions};
use crate::{HttpLimits, HttpOptions, changes, client, reply, sessions};
use skillhost_mcp::Changes;
use skillhost_mcp::message_limits::{self, MAX_LABEL_BYTES};
use skillhost_mcp::subscriptions::{self, LISTEN};

/// The code for a request that the server could answer later, from the range that
/// JSON-RPC leaves to servers.
const TRY_LATER: i32 = -32029;

/// The most bytes of a body that is read to refuse it under its id. Guards against: a
/// client past its minute that goes on sending.
const REFUSED_BODY: usize = 64 << 10;

/// The state that requests to `/mcp` share.
pub(crate) struct Endpoint<S> {
    service: StreamableHttpService<S, NeverSessionManager>,
    requests: Arc<RequestQuota>,
    streams: Arc<RequestQuota>,
    answers: Arc<AnswerBytes>,
    sessions: Arc<Sessions>,
    changes: Option<Receiver<Changes>>,
    limits: HttpLimits,
    ending: CancellationToken,
    broken_off: CancellationToken,
}

impl<S: ServerHandler> Endpoint<S> {
    pub(crate) fn new(
        service: StreamableHttpService<S, NeverSessionManager>,
        sessions: Arc<Sessions>,
        changes: Option<Receiver<Changes>>,
        options: &HttpOptions,
        ending: &CancellationToken,
        broken_off: &CancellationToken,
    ) -> Self {
        let limits = options.limits.clone();
        Self {
            service,
            requests: RequestQuota::new(limits.requests, options.clients.len()),
            streams: RequestQuota::new(limits.streams, options.clients.len()),
            answers: AnswerBytes::new(limits.answers, options.clients.len()),
            sessions,
            changes,
            limits,
            ending: ending.clone(),
            broken_off: broken_off.clone(),
        }
    }

    /// Takes what a request needs until its answer is written. None if too little
    /// is left.
    fn hold(
        &self,
        quota: &Arc<RequestQuota>,
        connection: Option<&Arc<ConnectionPlace>>,
        client: Option<&Arc<Client>>,
    ) -> Option<RequestHold> {
        // A connection with a client is protected.
        let connection = connection.filter(|_| client.is_none());
        let peer = connection.and_then(|connection| connection.peer());
        let permit = quota.take(match (client, peer) {
            (Some(client), _) => QuotaHolder::Client(client::key(client)),
            (None, Some(peer)) => QuotaHolder::Peer(peer),
            (None, None) => QuotaHolder::Anybody,
        })?;
        let protection = match connection {
            Some(connection) => Some(connection.protect()?),
            None => None,
        };
        Some(RequestHold {
            _permit: permit,
            _protection: protection,
            _in_flight: None,
            room: self
                .answers
                .room(client.and_then(|client| client::key(client))),
        })
    }
}

/// Answers one request.
pub(crate) async fn answer<S: ServerHandler>(
    State(endpoint): State<Arc<Endpoint<S>>>,
    mut request: Request,
) -> Response {
    let connection = request.extensions_mut().remove::<Arc<ConnectionPlace>>();
    let client = client::of(request.extensions()).cloned();
    if let Some(client) = &client
        && !sessions::has_own(request.headers(), client)
    {
        return refusal(StatusCode::NOT_FOUND, "no such session\n");
    }
    let changes = endpoint.changes.as_ref();
    if request.method() == Method::POST {
        return endpoint.answer_message(request, connection, client).await;
    }
    let is_stream = request.method() == Method::GET && changes::is_requested(request.headers());
    if let Some(changes) = changes.filter(|_| is_stream) {
        let Some(hold) = endpoint.hold(&endpoint.streams, connection.as_ref(), client.as_ref())
        else {
            return busy();
        };
        let expiry = request.extensions().get::<Expiry>().copied();
        let end = at_end(endpoint.ending.clone(), expiry);
        return changes::stream(changes.clone(), client)
            .map(|body| AnswerBody::body(body, end, hold));
    }
    let allowed = match changes {
        Some(_) => "GET, POST",
        None => "POST",
    };
    let text = "send messages by POST\n";
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, allowed)], text).into_response()
}

impl<S: ServerHandler> Endpoint<S> {
    async fn answer_message(
        &self,
        request: Request,
        connection: Option<Arc<ConnectionPlace>>,
        client: Option<Arc<Client>>,
    ) -> Response {
        let method = headers::method(request.headers());
        let is_subscription = method.is_some_and(|method| method == LISTEN);
        let quota = match is_subscription {
            true => &self.streams,
            false => &self.requests,
        };
        let Some(mut hold) = self.hold(quota, connection.as_ref(), client.as_ref()) else {
            return busy();
        };
        let expiry = request.extensions().get::<Expiry>().copied();
        let (mut parts, body) = request.into_parts();
        if let Some(why) = parts.extensions.remove::<ShareError>() {
            return self.refuse_message(&why, &parts.headers, body).await;
        }
        let body = match read(body, &parts.headers, &self.limits).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        let is_json = is_json(&parts.headers);
        let (mut session_id, mut in_flight) = (None, None);
        if is_json {
            if let Err(excess) = message_limits::check(&body) {
                return malformed(&body, Some(&excess.to_string()));
            }
            if is_subscription && !hold.room.reserve(subscriptions::retained_bytes(&body)) {
                return busy();
            }
            match self
                .sessions
                .classify(&parts.headers, &body, client.as_deref())
            {
                MessageKind::Handshake(id) => session_id = Some(id),
                MessageKind::Request(request) => in_flight = Some(request),
                MessageKind::Other => {}
            }
        }
        let cancelled = in_flight.as_ref().map(|request| request.cancelled.clone());
        let cancelled = cancelled.unwrap_or_default();
        hold._in_flight = in_flight;
        parts.extensions.insert(Arc::downgrade(&hold.room));
        let message = Request::from_parts(parts, Body::from(body.clone()));
        let request_time = self.limits.request_time;
        let answer = tokio::time::timeout(request_time, self.service.handle(message));
        // Dropping it before it ends stops its guest.
        let answer = tokio::select! {
            answer = answer => answer,
            () = self.broken_off.cancelled() => return reply::ending(),
            () = cancelled.cancelled() => return empty_stream(),
        };
        hold.room.end_turn();
        let mut answer = match answer {
            // rmcp refuses a body that is not a message; answer as JSON-RPC does.
            Ok(answer) if answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json => {
                return malformed(&body, None);
            }
            Ok(answer) => answer,
            Err(_) => {
                let text = format!("no answer within {request_time:?}\n");
                return (StatusCode::GATEWAY_TIMEOUT, text).into_response();
            }
        };
        drop(body);
        // A plain answer, or an error in place of one without room.
        if let Some(length) = answer.body().size_hint().exact()
            && !hold.room.reserve_answer(length)
        {
            tracing::info!("an answer was dropped: there is no room for it");
            return busy();
        }
        if let (StatusCode::OK, Some(id)) = (answer.status(), session_id) {
            answer.headers_mut().insert(SESSION_ID, id);
        }
        let end = match is_subscription {
            true => at_end(self.ending.clone(), expiry),
            false => in_time(request_time, cancelled),
        };
        answer.map(|body| AnswerBody::body(Body::new(body), end, hold))
    }
}

impl<S> Endpoint<S> {
    /// Refuses a message past its client's minute, under its id if it has one. A
    /// cancellation is heard all the same.
    async fn refuse_message(&self, why: &ShareError, headers: &HeaderMap, body: Body) -> Response {
        let mut limits = self.limits.clone();
        limits.body = limits.body.min(REFUSED_BODY);
        let Ok(body) = read(body, headers, &limits).await else {
            return closing(used_up(why));
        };
        self.sessions.classify(headers, &body, None);
        match request_id(&body) {
            Some(id) => {
                let data = json!({"retryAfter": why.seconds()});
                let error = json!({"code": TRY_LATER, "message": why.to_string(), "data": data});
                error_answer(StatusCode::OK, Some(id), error)
            }
            None => used_up(why),
        }
    }
}

/// Answers a request that its client has cancelled: a stream without an event.
fn empty_stream() -> Response {
    ([(CONTENT_TYPE, "text/event-stream")], "").into_response()
}

/// Reads the body of a request, or refuses it if it is too large or too slow.
async fn read(body: Body, headers: &HeaderMap, limits: &HttpLimits) -> Result<Bytes, Response> {
    let too_large = || {
        let text = format!("a request may have at most {} bytes\n", limits.body);
        closing(refusal(StatusCode::PAYLOAD_TOO_LARGE, text))
    };
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    let announced: Option<u64> = announced.and_then(|value| value.parse().ok());
    if announced.is_some_and(|length| length > limits.body as u64) {
        return Err(too_large());
    }
    match tokio::time::timeout(limits.body_time, to_bytes(body, limits.body)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_large(&error) => Err(too_large()),
        Ok(Err(_)) => {
            let text = "the body broke off\n";
            Err(closing(refusal(StatusCode::BAD_REQUEST, text)))
        }
        Err(_) => {
            let text = format!("the body took longer than {:?}\n", limits.body_time);
            Err(closing(refusal(StatusCode::REQUEST_TIMEOUT, text)))
        }
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn is_json(headers: &HeaderMap) -> bool {
    let media_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = media_type.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// Answers a body that is not a message of the protocol with a JSON-RPC error, and
/// with the request's id if that can be read.
fn malformed(body: &[u8], why: Option<&str>) -> Response {
    let text = str::from_utf8(body).unwrap_or_default();
    let invalid = |why| (-32600, format!("Invalid request: {why}"));
    let (code, message) = match why {
        Some(why) => invalid(why),
        None if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            invalid("the body is not a message of MCP")
        }
        None => (-32700, "Parse error: the body is not JSON".to_owned()),
    };
    let error = json!({"code": code, "message": message});
    error_answer(StatusCode::BAD_REQUEST, request_id(body), error)
}

/// Returns the id of a request, if it can be read.
fn request_id(body: &[u8]) -> Option<Value> {
    // As text first: an id could be what the refusal spares.
    let request = RawJson::new(str::from_utf8(body).ok()?).ok()?;
    let id = request.member("id")?.get();
    if id.len() > MAX_LABEL_BYTES {
        return None;
    }
    // Text of JSON need not be a value: a number can be too large, and a string can have
    // half a surrogate pair. A number that is written in another way is another id.
    let value = serde_json::from_str(id).ok();
    value.filter(|value| match value {
        Value::String(_) => true,
        Value::Number(number) => number.to_string() == id,
        _ => false,
    })
}

fn error_answer(status: StatusCode, id: Option<Value>, error: Value) -> Response {
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
    let headers = [(CONTENT_TYPE, "application/json")];
    (status, headers, answer.to_string()).into_response()
}
