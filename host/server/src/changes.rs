//! The event stream of changes, for clients that speak a protocol revision with sessions. Each of
//! them gets all changes in its scope, so the server stores nothing about it. Clients of revision
//! 2026-07-28 use `subscriptions/listen` instead.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use http_body::Frame;
use skillhost_identity::Client;
use tokio::sync::watch::Receiver;

use crate::accept::{EVENT_STREAM, names_event_stream};
use crate::headers::{FIRST_REVISION_WITH_METHOD, PROTOCOL_VERSION};
use skillhost_mcp::Changes;

/// The time after which an idle stream sends a comment. Guards against: a balancer that closes
/// silent connections, and a client that disconnects unnoticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns whether a GET request asks for the event stream. Revisions that name methods in headers
/// have no such stream.
pub(crate) fn is_requested(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION);
    names_event_stream(headers)
        && version.is_none_or(|version| version.as_bytes() < FIRST_REVISION_WITH_METHOD.as_bytes())
}

/// Returns a response that streams the changes in the client's scope from now on.
pub(crate) fn stream(mut changes: Receiver<Changes>, client: Option<Arc<Client>>) -> Response {
    let sent = *changes.borrow_and_update();
    let body = Body::new(ChangeStream {
        next: Box::pin(next(changes, sent, client)),
    });
    let headers = [(CONTENT_TYPE, EVENT_STREAM), (CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}

/// The body of an event stream.
struct ChangeStream {
    next: Pin<Box<dyn Future<Output = Option<ChangeEvent>> + Send>>,
}

/// The next bytes of the stream, and the state that later changes are compared with.
struct ChangeEvent {
    bytes: Bytes,
    changes: Receiver<Changes>,
    sent: Changes,
    client: Option<Arc<Client>>,
}

async fn next(
    mut changes: Receiver<Changes>,
    sent: Changes,
    client: Option<Arc<Client>>,
) -> Option<ChangeEvent> {
    let now = match tokio::time::timeout(KEEP_ALIVE, changes.changed()).await {
        Ok(Ok(())) => *changes.borrow_and_update(),
        Ok(Err(_)) => return None,
        Err(_) => sent,
    };
    let scope = client.as_ref().and_then(|client| client.scope());
    let changed = now.since(&sent, scope.map(Arc::as_ref));
    let lists = [
        ("tools", changed.tools),
        ("prompts", changed.prompts),
        ("resources", changed.resources),
    ];
    let changed = lists.iter().filter(|(_, changed)| *changed);
    let mut text: String = changed
        .map(|(list, _)| {
            format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"}}\n\n"
            )
        })
        .collect();
    if text.is_empty() {
        // A comment, which clients ignore.
        text.push_str(":\n\n");
    }
    Some(ChangeEvent {
        bytes: text.into(),
        changes,
        sent: now,
        client,
    })
}

impl HttpBody for ChangeStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let event = ready!(self.next.as_mut().poll(context));
        Poll::Ready(event.map(|event| {
            self.next = Box::pin(next(event.changes, event.sent, event.client));
            Ok(Frame::data(event.bytes))
        }))
    }
}
