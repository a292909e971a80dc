//! The body of an answer: its bytes hold what the request takes until they are
//! written or dropped, and a stream ends when its time is up.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use skillhost_identity::Expiry;
use tokio_util::sync::CancellationToken;

use crate::LAST_WORDS;
use crate::places::Protection;
use crate::quota::QuotaPermit;
use crate::sessions::CancellableRequest;
use skillhost_mcp::answer_lease::AnswerLease;

/// The things that a request holds until the last byte of its answer is written.
pub(crate) struct RequestHold {
    pub(crate) _permit: QuotaPermit,
    pub(crate) _protection: Option<Protection>,
    pub(crate) _in_flight: Option<CancellableRequest>,
    pub(crate) room: Arc<AnswerLease>,
}

/// The body of an answer.
pub(crate) struct AnswerBody {
    body: Body,
    end: AnswerEnd,
    hold: Arc<RequestHold>,
}

impl AnswerBody {
    pub(crate) fn body(body: Body, end: AnswerEnd, hold: RequestHold) -> Body {
        let hold = Arc::new(hold);
        Body::new(Self { body, end, hold })
    }
}

/// Bytes that are not written yet, and what they hold.
struct HeldBytes {
    bytes: Bytes,
    _hold: Arc<RequestHold>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Waits for the end of an answer that does not end by itself. An error breaks the
/// connection off, so that the answer does not look complete.
pub(crate) type AnswerEnd = Pin<Box<dyn Future<Output = Result<(), io::Error>> + Send>>;

/// Ends a stream when the server ends, or when what its client has shown no longer
/// counts.
pub(crate) fn at_end(ending: CancellationToken, expiry: Option<Expiry>) -> AnswerEnd {
    Box::pin(async move {
        let expired = async {
            match expiry {
                Some(expiry) => expiry.passed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ending.cancelled() => tokio::time::sleep(LAST_WORDS).await,
            () = expired => {}
        }
        Ok(())
    })
}

/// Ends the stream of a request when it is cancelled, and breaks it off when its
/// time is up.
pub(crate) fn in_time(time: Duration, cancelled: CancellationToken) -> AnswerEnd {
    Box::pin(async move {
        match tokio::time::timeout(time, cancelled.cancelled()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(io::Error::other("the request's time is up")),
        }
    })
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            let end = ready!(self.end.as_mut().poll(context));
            return Poll::Ready(end.err().map(|error| Err(axum::Error::new(error))));
        };
        let Some(Ok(frame)) = frame else {
            return Poll::Ready(frame);
        };
        // The size of a stream is known only as it is sent.
        let length = frame.data_ref().map_or(0, Bytes::len);
        if !self.hold.room.reserve(length) {
            let error = io::Error::other("there is no room for the answer");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        let hold = &self.hold;
        let holding = |bytes| {
            Bytes::from_owner(HeldBytes {
                bytes,
                _hold: Arc::clone(hold),
            })
        };
        Poll::Ready(Some(Ok(frame.map_data(holding))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
