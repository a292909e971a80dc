//! The stream that a client of a revision with sessions opens to be told of
//! changes: every such client is told of all of them, so that nothing need be
//! known of it. Clients of 2026-07-28 ask for `subscriptions/listen` instead.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use http_body::Frame;
use tokio::sync::watch::Receiver;

use crate::live::Changes;

/// How often a stream on which nothing is said shows that it is there. Meets: a
/// balancer that closes what is silent, and a client that is gone unnoticed.
const ALIVE: Duration = Duration::from_secs(15);

/// The first revision whose clients have no such stream.
const WITHOUT: &str = "2026-07-28";

/// Whether a request is for this stream.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let mut accepted = accepted.flat_map(|value| value.split([',', ';']));
    let version = headers.get("mcp-protocol-version");
    accepted.any(|media_type| media_type.trim() == "text/event-stream")
        && version.is_none_or(|version| version.as_bytes() < WITHOUT.as_bytes())
}

/// A stream of the changes from now on.
pub(super) fn stream(mut changes: Receiver<Changes>) -> Response {
    let told = *changes.borrow_and_update();
    let body = Body::new(Told {
        next: Box::pin(next(changes, told)),
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

/// The body of such a stream.
struct Told {
    next: Pin<Box<dyn Future<Output = Option<Said>> + Send>>,
}

/// What is said, and what is known after.
struct Said {
    bytes: Bytes,
    changes: Receiver<Changes>,
    told: Changes,
}

async fn next(mut changes: Receiver<Changes>, told: Changes) -> Option<Said> {
    let now = match tokio::time::timeout(ALIVE, changes.changed()).await {
        Ok(Ok(())) => *changes.borrow_and_update(),
        Ok(Err(_)) => return None,
        Err(_) => told,
    };
    let lists = [
        ("tools", now.tools != told.tools),
        ("prompts", now.prompts != told.prompts),
        ("resources", now.resources != told.resources),
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
        // A line that is no event.
        text.push_str(":\n\n");
    }
    Some(Said {
        bytes: text.into(),
        changes,
        told: now,
    })
}

impl HttpBody for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let said = ready!(self.next.as_mut().poll(context));
        Poll::Ready(said.map(|said| {
            self.next = Box::pin(next(said.changes, said.told));
            Ok(Frame::data(said.bytes))
        }))
    }
}
