//! The body of an answer: its bytes hold the request's place until they are
//! written or given up, and it ends when its time has come.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

use super::LAST_WORDS;
use super::places::Work;
use super::quota::Taken;
use super::sessions::InFlight;
use crate::room::Room;

/// What a request has until the last byte of its answer is written.
pub(super) struct Hold {
    pub(super) _place: Taken,
    pub(super) _work: Option<Work>,
    pub(super) _in_flight: Option<InFlight>,
    pub(super) room: Arc<Room>,
}

/// The body of an answer.
pub(super) struct Answer {
    body: Body,
    end: End,
    hold: Arc<Hold>,
}

impl Answer {
    pub(super) fn body(body: Body, end: End, hold: Hold) -> Body {
        let hold = Arc::new(hold);
        Body::new(Self { body, end, hold })
    }
}

/// Bytes on their way, and what they hold.
struct Holding {
    bytes: Bytes,
    _hold: Arc<Hold>,
}

impl AsRef<[u8]> for Holding {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Waits for what ends an answer that does not end by itself. The error breaks
/// it off, so that it cannot pass for a whole one.
pub(super) type End = Pin<Box<dyn Future<Output = Result<(), io::Error>> + Send>>;

/// A stream for as long as the server is there.
pub(super) fn at_shutdown(ending: CancellationToken) -> End {
    Box::pin(async move {
        ending.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
        Ok(())
    })
}

/// A stream of events about a request, for its time and until it is cancelled.
pub(super) fn in_time(time: Duration, cancelled: CancellationToken) -> End {
    Box::pin(async move {
        match tokio::time::timeout(time, cancelled.cancelled()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(io::Error::other("the request's time has passed")),
        }
    })
}

impl HttpBody for Answer {
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
        // Of a stream of events, the size is not known before.
        let length = frame.data_ref().map_or(0, Bytes::len);
        if !self.hold.room.fit(length) {
            let error = io::Error::other("there is no room for the answer");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        let hold = &self.hold;
        let holding = |bytes| {
            Bytes::from_owner(Holding {
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
