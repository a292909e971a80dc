//! `/mcp`: hands the body of a request to rmcp, and holds the request's resources until the last
//! byte of the response is written.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, Full};
use rmcp::ServerHandler;
use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde::de::IgnoredAny;
use serde_json::Value;
use skillhost_identity::{BudgetError, Client};
use skillhost_mcp::Changes;
use skillhost_mcp::answer_lease::JsonTurn;
use skillhost_mcp::message_limits::{self, MAX_LABEL_BYTES};
use skillhost_mcp::progress::WithoutReports;
use skillhost_mcp::subscriptions::LISTEN;
use skillhost_skills::text::raw_json::RawJson;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use crate::accept::{AcceptedForms, EVENT_STREAM, is_json};
use crate::budget::{Budget, Holder, Lease};
use crate::headers::{self, PROTOCOL_VERSION, SESSION_ID};
use crate::reply::{and_close, busy, error_response, over_budget, refusal, refusal_into_error};
use crate::response::{RequestResources, ResponseBody, ResponseEnd, end_of_request, end_of_stream};
use crate::response_budget::ResponseBudget;
use crate::sessions::{MessageKind, Sessions};
use crate::slots::ConnectionSlot;
use crate::{HttpLimits, HttpOptions, body, changes, client, reply, sessions};

/// The maximum number of bytes that are read of a body if its client is over its budget. The
/// refusal needs the id of the message in the body. Guards against: a client that continues to
/// send.
const MAX_REFUSED_BODY: usize = 64 << 10;

/// The header `Accept` that rmcp requires.
const BOTH_FORMS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// The state that requests to `/mcp` share.
pub(crate) struct Endpoint<S> {
    service: StreamableHttpService<S, NeverSessionManager>,
    requests: Arc<Budget>,
    streams: Arc<Budget>,
    bodies: Arc<Budget>,
    responses: ResponseBudget,
    sessions: Arc<Sessions>,
    changes: Option<Receiver<Changes>>,
    limits: HttpLimits,
    /// Cancelled when requests in flight are aborted.
    abort: CancellationToken,
}

/// The parts of a request that are known before its body is read.
struct RequestHead {
    slot: Option<Arc<ConnectionSlot>>,
    client: Option<Arc<Client>>,
    forms: AcceptedForms,
    /// False if the session id of the request belongs to another client.
    may_use_session: bool,
}

/// A message to rmcp, with the data that its response needs.
struct Message {
    is_json: bool,
    is_subscription: bool,
    /// True if the client accepts an event stream.
    accepts_stream: bool,
    /// The protocol revision that the headers name.
    version: Option<HeaderValue>,
    body: Bytes,
    /// The end of the response, if it is a stream.
    end_of_stream: ResponseEnd,
    cancelled: CancellationToken,
    /// The session id that the response to a handshake gets.
    session_id: Option<HeaderValue>,
}

impl<S: ServerHandler> Endpoint<S> {
    pub(crate) fn new(
        service: StreamableHttpService<S, NeverSessionManager>,
        sessions: Arc<Sessions>,
        changes: Option<Receiver<Changes>>,
        options: &HttpOptions,
        abort: &CancellationToken,
    ) -> Self {
        let limits = options.limits.clone();
        let clients = options.clients.len();
        Self {
            service,
            requests: Budget::new(limits.requests, clients),
            streams: Budget::new(limits.streams, clients),
            bodies: Budget::new(limits.bodies, clients),
            responses: ResponseBudget::new(limits.answers, clients),
            sessions,
            changes,
            limits,
            abort: abort.clone(),
        }
    }

    /// Acquires the resources that a request or stream holds until its response is written. If a
    /// budget is used up, returns the name of its limit in `[http]`.
    fn acquire(
        &self,
        is_stream: bool,
        head: &RequestHead,
    ) -> Result<RequestResources, &'static str> {
        let (budget, limit) = if is_stream {
            (&self.streams, "streams")
        } else {
            (&self.requests, "requests")
        };
        let client = head.client.as_ref();
        let client = client.map(|client| Holder::Client(client::key(client)));
        // The gate has protected a client's connection from eviction already.
        let slot = head.slot.as_ref().filter(|_| client.is_none());
        let peer = slot.and_then(|slot| slot.peer()).map(Holder::Peer);
        let response_holder = client.clone().unwrap_or(Holder::Anybody);
        let holder = client.or(peer).unwrap_or(Holder::Anybody);
        let body_lease = self.bodies.empty_lease(holder.clone());
        let lease = budget.lease(holder).ok_or(limit)?;
        let protection = slot.map(|slot| {
            let protection = slot.protect_during_request();
            protection.ok_or("connections")
        });
        let protection = protection.transpose()?;
        Ok(RequestResources {
            _request_lease: lease,
            body_lease,
            _protection: protection,
            _in_flight: None,
            answer_lease: self.responses.lease(response_holder),
        })
    }
}

/// Answers one request. Every error is a JSON-RPC error.
pub(crate) async fn answer<S: ServerHandler>(
    State(endpoint): State<Arc<Endpoint<S>>>,
    request: Request,
) -> Response {
    refusal_into_error(endpoint.answer(request).await, || None).await
}

impl<S: ServerHandler> Endpoint<S> {
    async fn answer(&self, mut request: Request) -> Response {
        let client = client::from_extensions(request.extensions()).cloned();
        let may_use = |client: &Arc<Client>| sessions::may_use_session(request.headers(), client);
        let head = RequestHead {
            may_use_session: client.as_ref().is_none_or(may_use),
            forms: AcceptedForms::read(request.headers()),
            slot: request.extensions_mut().remove(),
            client,
        };
        if request.method() == Method::POST {
            let forms = head.forms;
            return forms.apply(self.answer_message(request, head).await);
        }
        if !head.may_use_session {
            return no_such_session();
        }
        let changes = self.changes.as_ref();
        let is_stream = request.method() == Method::GET && changes::is_requested(request.headers());
        if let Some(changes) = changes.filter(|_| is_stream) {
            let resources = match self.acquire(true, &head) {
                Ok(resources) => resources,
                Err(limit) => return busy(limit),
            };
            let end = end_of_stream(request.extensions());
            return changes::stream(changes.clone(), head.client)
                .map(|body| ResponseBody::wrap(body, end, resources));
        }
        let allowed = if changes.is_some() {
            "GET, POST"
        } else {
            "POST"
        };
        let text = "send messages by POST\n";
        (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, allowed)], text).into_response()
    }

    async fn answer_message(&self, mut request: Request, head: RequestHead) -> Response {
        if head.forms.is_none() {
            let text = "accept `application/json`, `text/event-stream` or both\n";
            return refusal(StatusCode::NOT_ACCEPTABLE, text);
        }
        if !head.may_use_session {
            // Without this header, a cancellation cannot reach the calls of another client.
            request.headers_mut().remove(SESSION_ID);
        }
        let method = headers::method(request.headers());
        let is_subscription = method.is_some_and(|method| method == LISTEN);
        let mut resources = match self.acquire(is_subscription, &head) {
            Ok(resources) => resources,
            Err(limit) => return busy(limit),
        };
        let end_of_stream = end_of_stream(request.extensions());
        let (mut parts, body) = request.into_parts();
        if let Some(error) = parts.extensions.remove::<BudgetError>() {
            let lease = &mut resources.body_lease;
            return self
                .refuse_message(&error, &parts.headers, body, lease, head.slot.as_deref())
                .await;
        }
        let (lease, slot) = (&mut resources.body_lease, head.slot.as_deref());
        let body = match body::read(body, &parts.headers, &self.limits, lease, slot).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        let mut message = Message {
            is_json: is_json(&parts.headers),
            is_subscription,
            accepts_stream: head.forms.event_stream,
            version: parts.headers.get(PROTOCOL_VERSION).cloned(),
            body,
            end_of_stream,
            cancelled: CancellationToken::new(),
            session_id: None,
        };
        let turn = resources.answer_lease.turn_to_parse(&message.body).await;
        if message.is_json {
            if let Err(excess) = message_limits::check(&message.body) {
                return malformed(&message.body, Some(&excess.to_string()));
            }
            let memory_to_answer = message_limits::memory_to_answer(&message.body);
            if !resources.body_lease.grow(memory_to_answer) {
                return refusal_into_error(busy("bodies"), || request_id(&message.body)).await;
            }
            let memory = message_limits::memory_of(&message.body);
            if is_subscription && !resources.answer_lease.reserve(memory) {
                return busy("answers");
            }
            let sessions = &self.sessions;
            match sessions.process(&parts.headers, &message.body, head.client.as_deref()) {
                MessageKind::Handshake(id) => {
                    message.session_id = Some(id);
                    // The body names the revision that the client wants. In the header, some
                    // clients name that of an earlier session.
                    parts.headers.remove(PROTOCOL_VERSION);
                }
                MessageKind::Request(request) => {
                    message.cancelled = request.cancelled.clone();
                    resources._in_flight = Some(request);
                }
                MessageKind::Other => {}
            }
        }
        if !head.may_use_session && message.session_id.is_none() {
            return refusal_into_error(no_such_session(), || request_id(&message.body)).await;
        }
        if !head.forms.event_stream {
            if is_subscription {
                let text = "accept `text/event-stream` to subscribe\n";
                let refused = refusal(StatusCode::NOT_ACCEPTABLE, text);
                return refusal_into_error(refused, || request_id(&message.body)).await;
            }
            parts.extensions.insert(WithoutReports);
        }
        parts.headers.insert(ACCEPT, BOTH_FORMS);
        parts
            .extensions
            .insert(Arc::downgrade(&resources.answer_lease));
        let request = Request::from_parts(parts, body_in_turn(message.body.clone(), turn));
        self.handle(request, message, resources).await
    }

    /// Hands a message to rmcp, and returns its response with the resources of the request.
    async fn handle(
        &self,
        request: Request,
        message: Message,
        resources: RequestResources,
    ) -> Response {
        let request_time = self.limits.request_time;
        let response = tokio::time::timeout(request_time, self.service.handle(request));
        // Dropping the future stops the guest.
        let response = tokio::select! {
            response = response => match response {
                Ok(response) => response.map(Body::new),
                Err(_) => timed_out(request_time),
            },
            () = self.abort.cancelled() => reply::shutting_down(),
            () = message.cancelled.cancelled() => return cancelled(message.accepts_stream),
        };
        // A refusal gets the id of the message, which is parsed again.
        let _turn = if response.status().is_success() || is_json(response.headers()) {
            None
        } else {
            resources.answer_lease.turn_to_parse(&message.body).await
        };
        let response = match response.status() {
            // rmcp refuses a body that is not a message.
            StatusCode::UNSUPPORTED_MEDIA_TYPE if message.is_json => {
                return malformed(&message.body, None);
            }
            StatusCode::BAD_REQUEST if !is_json(response.headers()) => {
                unsupported_version(response, &message)
            }
            _ => response,
        };
        let mut response = refusal_into_error(response, || request_id(&message.body)).await;
        // A response of known length is not a stream. It becomes a refusal if the budget has too
        // few bytes for it, or had too few when rmcp made the answer.
        match response.body().size_hint().exact() {
            Some(length) if !resources.answer_lease.reserve_answer(length) => {
                tracing::info!(
                    "dropped an answer: the budget `answers` in `[http]` has too few bytes left"
                );
                return refusal_into_error(busy("answers"), || request_id(&message.body)).await;
            }
            // Another large answer may be serialized now.
            Some(_) => resources.answer_lease.end_turn(),
            // The messages of a stream are serialized later.
            None => resources.answer_lease.begin_stream(),
        }
        drop(message.body);
        if let (StatusCode::OK, Some(id)) = (response.status(), message.session_id) {
            response.headers_mut().insert(SESSION_ID, id);
        }
        let end = if message.is_subscription {
            message.end_of_stream
        } else {
            end_of_request(request_time, message.cancelled)
        };
        response.map(|body| ResponseBody::wrap(Body::new(body), end, resources))
    }
}

impl<S> Endpoint<S> {
    /// Refuses a message of a client over its budget, under the id of the message if it has one.
    /// A cancellation still takes effect.
    async fn refuse_message(
        &self,
        error: &BudgetError,
        headers: &HeaderMap,
        body: Body,
        lease: &mut Lease,
        slot: Option<&ConnectionSlot>,
    ) -> Response {
        let mut limits = self.limits.clone();
        limits.body = limits.body.min(MAX_REFUSED_BODY);
        let Ok(body) = body::read(body, headers, &limits, lease, slot).await else {
            return and_close(over_budget(error));
        };
        self.sessions.process(headers, &body, None);
        match request_id(&body) {
            Some(id) => {
                let error = skillhost_mcp::over_budget(error);
                error_response(StatusCode::OK, Some(id), &error)
            }
            None => over_budget(error),
        }
    }
}

/// Returns a body that keeps a turn. rmcp drops the body once the message is parsed.
fn body_in_turn(bytes: Bytes, turn: Option<JsonTurn>) -> Body {
    Body::new(Full::new(bytes).inspect_frame(move |_| {
        let _kept = &turn;
    }))
}

/// Answers a request that its client has cancelled. The response has no message: it is a stream
/// without events, or has no body.
fn cancelled(accepts_stream: bool) -> Response {
    if accepts_stream {
        ([(CONTENT_TYPE, EVENT_STREAM)], "").into_response()
    } else {
        StatusCode::ACCEPTED.into_response()
    }
}

/// Answers a request whose time is up.
fn timed_out(time: Duration) -> Response {
    let text = format!("no answer within {time:?}\n");
    (StatusCode::GATEWAY_TIMEOUT, text).into_response()
}

/// Refuses a request with the session id of another client.
fn no_such_session() -> Response {
    refusal(StatusCode::NOT_FOUND, "no such session\n")
}

/// Replaces rmcp's refusal with one that lists the supported revisions, if the headers name an
/// unsupported one.
fn unsupported_version(refusal: Response, message: &Message) -> Response {
    let Some(requested) = &message.version else {
        return refusal;
    };
    let requested = String::from_utf8_lossy(requested.as_bytes()).into_owned();
    let Ok(requested) = serde_json::from_value::<ProtocolVersion>(requested.into()) else {
        return refusal;
    };
    let supported = ProtocolVersion::KNOWN_VERSIONS;
    let error = ErrorData::unsupported_protocol_version(requested, supported);
    error_response(refusal.status(), request_id(&message.body), &error)
}

/// Refuses a body that is not an MCP message. The JSON-RPC error has the id of the request, if that
/// can be parsed.
fn malformed(body: &[u8], problem: Option<&str>) -> Response {
    let text = str::from_utf8(body).unwrap_or_default();
    let invalid = |problem| {
        (
            ErrorCode::INVALID_REQUEST,
            format!("Invalid request: {problem}"),
        )
    };
    let (code, message) = match problem {
        Some(problem) => invalid(problem),
        None if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            invalid("the body is not an MCP message")
        }
        None => (
            ErrorCode::PARSE_ERROR,
            "Parse error: the body is not JSON".to_owned(),
        ),
    };
    let error = ErrorData::new(code, message, None);
    error_response(StatusCode::BAD_REQUEST, request_id(body), &error)
}

/// Returns the id of a request, if it can be parsed.
fn request_id(body: &[u8]) -> Option<Value> {
    let request = RawJson::new(str::from_utf8(body).ok()?).ok()?;
    let id = request.member("id")?.get();
    // A refusal must be cheap, so a huge id is not parsed.
    if id.len() > MAX_LABEL_BYTES {
        return None;
    }
    // Parsing can fail: a number can be too large, and a string can have half a surrogate pair. The
    // response would write some numbers differently, and the client would not recognize them.
    let value = serde_json::from_str(id).ok();
    value.filter(|value| match value {
        Value::String(_) => true,
        Value::Number(number) => number.to_string() == id,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::pin::{Pin, pin};
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use axum::http::header::HOST;
    use axum::http::request::Parts;
    use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken};
    use rmcp::service::{RequestContext, RoleServer};
    use skillhost_mcp::answer_lease::AnswerLease;
    use tokio::task::yield_now;

    use super::*;
    use crate::Server;
    use crate::response_budget::tests::take_turns;

    /// A handler that counts pings, and never answers them.
    #[derive(Clone, Default)]
    struct PingCounter(Arc<AtomicUsize>);

    impl ServerHandler for PingCounter {
        async fn ping(&self, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        }
    }

    /// A handler that answers a ping with an announced large message of a stream.
    struct Streamer;

    impl ServerHandler for Streamer {
        async fn ping(&self, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
            let parts = context.extensions.get::<Parts>().unwrap();
            let lease = parts.extensions.get::<Weak<AnswerLease>>().unwrap();
            lease.upgrade().unwrap().announce_large();
            let token = ProgressToken(NumberOrString::Number(1));
            let report = ProgressNotificationParam::new(token, 1.0);
            context.peer.notify_progress(report).await.unwrap();
            std::future::pending().await
        }
    }

    async fn endpoint<S: ServerHandler>(
        handler: impl Fn() -> std::io::Result<S> + Send + Sync + 'static,
    ) -> Arc<Endpoint<S>> {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(address, HttpOptions::default()).await.unwrap();
        server.endpoint(handler, &CancellationToken::new())
    }

    /// Returns a request with this many blanks at the start of its body.
    fn ping(blanks: usize) -> Request {
        let ping = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;
        axum::http::Request::post("/mcp")
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, BOTH_FORMS)
            .body(Body::from(" ".repeat(blanks) + ping))
            .unwrap()
    }

    #[tokio::test]
    async fn parses_large_messages_in_turns() {
        let pings = PingCounter::default();
        let handler = pings.clone();
        let endpoint = endpoint(move || Ok(handler.clone())).await;
        let turns = take_turns(&endpoint.responses, &Holder::Anybody);
        let count = turns.len();
        let mut first_answer = pin!(async {
            tokio::select! {
                answer = endpoint.answer(ping(1 << 20)) => answer,
                answer = endpoint.answer(ping(0)) => answer,
            }
        });
        let mut until_pinged = async |expected: usize| {
            let pinged = async {
                while pings.0.load(Ordering::Relaxed) < expected {
                    yield_now().await;
                }
                // Further pings would be handled now.
                for _ in 0..100 {
                    yield_now().await;
                }
            };
            tokio::select! {
                biased;
                answer = &mut first_answer => panic!("a ping is answered with {}", answer.status()),
                () = pinged => assert_eq!(pings.0.load(Ordering::Relaxed), expected),
            }
        };
        until_pinged(1).await;
        drop(turns);
        until_pinged(2).await;
        // A turn ends before the message is handled.
        assert_eq!(
            take_turns(&endpoint.responses, &Holder::Anybody).len(),
            count
        );
    }

    #[tokio::test]
    async fn serializes_large_messages_of_stream_in_turns() {
        let endpoint = endpoint(|| Ok(Streamer)).await;
        let turns = take_turns(&endpoint.responses, &Holder::Anybody);
        let count = turns.len();
        let mut body = endpoint.answer(ping(0)).await.into_body();
        let mut task = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut task).is_pending());
        drop(turns);
        let message = body.frame().await.unwrap().unwrap();
        assert!(message.is_data());
        // The turn has ended, although the message is not sent.
        assert_eq!(
            take_turns(&endpoint.responses, &Holder::Anybody).len(),
            count
        );
    }
}
