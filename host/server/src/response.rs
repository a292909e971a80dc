//! Bodies of responses. The bytes of a body hold the leases of its request until they are written
//! or dropped. A response can end before its body: at a cancellation, a timeout or a shutdown, or
//! when the client's credential expires.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::Extensions;
use http_body::{Frame, SizeHint};
use skillhost_identity::Expiry;
use tokio_util::sync::CancellationToken;

use crate::FINAL_WRITE_TIME;
use crate::budget::Lease;
use crate::sessions::CancellableRequest;
use crate::slots::Protection;
use skillhost_mcp::answer_lease::{AnswerLease, TurnWait};

/// The resources that a request holds until the last byte of its response is written.
pub(crate) struct RequestResources {
    /// The lease of one request or stream, from the budget `requests` or `streams`.
    pub(crate) _request_lease: Lease,
    /// The memory of the request's body and of its values.
    pub(crate) body_lease: Lease,
    pub(crate) _protection: Option<Protection>,
    pub(crate) _in_flight: Option<CancellableRequest>,
    pub(crate) answer_lease: Arc<AnswerLease>,
}

/// The body of a response, which holds the resources of its request.
pub(crate) struct ResponseBody {
    body: Body,
    end: ResponseEnd,
    /// The wait for the turn of the next message, if that message may be large.
    turn: Option<TurnWait>,
    resources: Arc<RequestResources>,
}

impl ResponseBody {
    pub(crate) fn wrap(body: Body, end: ResponseEnd, resources: RequestResources) -> Body {
        let resources = Arc::new(resources);
        Body::new(Self {
            body,
            end,
            turn: None,
            resources,
        })
    }

    /// Polls the next part of the body. A large message of a stream is serialized in a turn, which
    /// ends before the message is sent.
    fn poll_part(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.turn.is_none() {
            self.turn = self.resources.answer_lease.turn_for_message();
        }
        let _turn = match &mut self.turn {
            Some(turn) => ready!(turn.as_mut().poll(context)),
            None => None,
        };
        self.turn = None;
        Pin::new(&mut self.body).poll_frame(context)
    }
}

/// Bytes that are not yet written, with the resources of their request.
struct UnwrittenBytes {
    bytes: Bytes,
    _resources: Arc<RequestResources>,
}

impl AsRef<[u8]> for UnwrittenBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A future that ends a response when it completes. An error closes the connection, so the client
/// sees that the response is incomplete.
pub(crate) type ResponseEnd = Pin<Box<dyn Future<Output = Result<(), io::Error>> + Send>>;

/// Returns the end of a stream: when the client's credential expires, or soon after its connection
/// is told to end, such as at a shutdown.
pub(crate) fn end_of_stream(request: &Extensions) -> ResponseEnd {
    // The connection inserts this token.
    let end = request.get::<CancellationToken>().cloned();
    let end = end.unwrap_or_default();
    let expiry = request.get::<Expiry>().copied();
    Box::pin(async move {
        let expired = async {
            match expiry {
                Some(expiry) => expiry.passed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = end.cancelled() => tokio::time::sleep(FINAL_WRITE_TIME).await,
            () = expired => {}
        }
        Ok(())
    })
}

/// Returns the end of the response to a request: when the request is cancelled, or with an error
/// when its time is up.
pub(crate) fn end_of_request(time: Duration, cancelled: CancellationToken) -> ResponseEnd {
    Box::pin(async move {
        match tokio::time::timeout(time, cancelled.cancelled()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(io::Error::other("the request's time is up")),
        }
    })
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Poll::Ready(frame) = self.poll_part(context) else {
            let end = ready!(self.end.as_mut().poll(context));
            return Poll::Ready(end.err().map(|error| Err(axum::Error::new(error))));
        };
        let Some(Ok(frame)) = frame else {
            return Poll::Ready(frame);
        };
        // Reserves memory frame by frame, because the size of a stream is not known in advance.
        let length = frame.data_ref().map_or(0, Bytes::len);
        if !self.resources.answer_lease.reserve(length) {
            let error = io::Error::other("the budget `answers` in `[http]` has too few bytes left");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        let resources = &self.resources;
        let with_resources = |bytes| {
            Bytes::from_owner(UnwrittenBytes {
                bytes,
                _resources: Arc::clone(resources),
            })
        };
        Poll::Ready(Some(Ok(frame.map_data(with_resources))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
