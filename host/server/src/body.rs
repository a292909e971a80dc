//! Reads the body of a request within its limits, and discards the rest of a refused one.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use crate::HttpLimits;
use crate::budget::Lease;
use crate::reply::{and_close, busy, refusal};
use crate::slots::ConnectionSlot;

/// The number of pieces that every body may have. A piece is a chunk, or the bytes of one read from
/// the connection. Guards against: a peer that keeps the processor busy with tiny chunks.
const MAX_PIECES: usize = 16 << 10;

/// The number of bytes for which a body may have one more piece. Segments of TCP are larger.
const BYTES_PER_PIECE: usize = 256;

/// The time in which a refused peer can send the rest of its request, and read the refusal.
/// Closing with unread bytes would reset the connection, and the peer could not read the refusal.
pub(crate) const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// The maximum number of bytes that are discarded of a refused request's body. Guards against: a
/// peer that sends as much as it can.
const MAX_DISCARDED: usize = 4 << 20;

/// The body of a request. Its rest can be [discarded](discard) after its reader has dropped it.
#[derive(Clone)]
pub(crate) struct SharedBody(Arc<Mutex<Body>>);

impl SharedBody {
    pub(crate) fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    fn body(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.body()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body().size_hint()
    }
}

/// Reads and drops the rest of a refused request's body, within limits. Calls `on_piece` after each
/// piece.
pub(crate) async fn discard(mut body: SharedBody, on_piece: impl Fn()) {
    let discarding = async {
        let mut bytes = 0;
        while bytes < MAX_DISCARDED
            && let Some(Ok(frame)) = body.frame().await
        {
            // A tiny piece takes as long as a larger one.
            bytes += frame.data_ref().map_or(0, Bytes::len).max(BYTES_PER_PIECE);
            on_piece();
        }
    };
    let _ = timeout(REFUSAL_TIME, discarding).await;
}

/// The reason to refuse a body.
enum BodyError {
    TooLarge,
    TooManyPieces,
    Aborted,
    /// The budget `bodies` has too few bytes left.
    Busy,
}

/// Reads the body of a request, and grows a lease by its bytes. Returns a refusal if the body is
/// too large or too slow, if it comes in too many pieces, or if the lease cannot grow.
pub(crate) async fn read(
    body: Body,
    headers: &HeaderMap,
    limits: &HttpLimits,
    lease: &mut Lease,
    slot: Option<&ConnectionSlot>,
) -> Result<Bytes, Response> {
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limits.body as u64) {
        return Err(refuse(&BodyError::TooLarge, limits));
    }
    match timeout(limits.body_time, collect(body, limits.body, lease, slot)).await {
        Ok(bytes) => bytes.map_err(|error| refuse(&error, limits)),
        Err(_) => Err(refuse_slow(limits.body_time)),
    }
}

/// Copies the pieces of a body into one buffer. Without the copy, each piece would occupy the
/// whole buffer into which it was read.
async fn collect(
    mut body: Body,
    max_bytes: usize,
    lease: &mut Lease,
    slot: Option<&ConnectionSlot>,
) -> Result<Bytes, BodyError> {
    let mut bytes = Vec::new();
    let mut pieces = 0;
    while let Some(frame) = body.frame().await {
        if let Some(slot) = slot {
            slot.set_read();
        }
        // Trailers are not part of the message.
        let Ok(piece) = frame.map_err(|_| BodyError::Aborted)?.into_data() else {
            continue;
        };
        if piece.len() > max_bytes - bytes.len() {
            return Err(BodyError::TooLarge);
        }
        if !lease.grow(piece.len()) {
            return Err(BodyError::Busy);
        }
        bytes.extend_from_slice(&piece);
        pieces += 1;
        if pieces > MAX_PIECES + bytes.len() / BYTES_PER_PIECE {
            return Err(BodyError::TooManyPieces);
        }
    }
    Ok(bytes.into())
}

fn refuse(error: &BodyError, limits: &HttpLimits) -> Response {
    let (status, text) = match error {
        BodyError::TooLarge => {
            let text = format!("a request may have at most {} bytes\n", limits.body);
            (StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        BodyError::TooManyPieces => {
            let text = "the body came in too many pieces: send larger chunks\n";
            (StatusCode::PAYLOAD_TOO_LARGE, text.to_owned())
        }
        BodyError::Busy => return and_close(busy("bodies")),
        BodyError::Aborted => (StatusCode::BAD_REQUEST, "the body ended early\n".to_owned()),
    };
    and_close(refusal(status, text))
}

fn refuse_slow(time: Duration) -> Response {
    let text = format!("the body took longer than {time:?}\n");
    and_close(refusal(StatusCode::REQUEST_TIMEOUT, text))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;
    use crate::budget::{Budget, Holder};

    /// A body of equal pieces. Panics if a piece still exists when the next is read.
    struct Pieces {
        size: usize,
        left: usize,
        existing: Arc<()>,
    }

    /// A piece, which counts as existing until it is dropped.
    struct Piece {
        bytes: Vec<u8>,
        _existing: Arc<()>,
    }

    impl AsRef<[u8]> for Piece {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let count = Arc::strong_count(&self.existing);
            assert_eq!(count, 1, "an earlier piece exists");
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            let piece = Piece {
                bytes: vec![b'x'; self.size],
                _existing: Arc::clone(&self.existing),
            };
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
        }
    }

    fn pieces(count: usize, size: usize) -> Body {
        Body::new(Pieces {
            size,
            left: count,
            existing: Arc::default(),
        })
    }

    /// Reads a body of pieces. Returns the number of its bytes, or the status of the refusal.
    async fn read_pieces(count: usize, size: usize, max_bytes: usize) -> Result<usize, u16> {
        let body = pieces(count, size);
        let limits = HttpLimits {
            body: max_bytes,
            ..HttpLimits::default()
        };
        let mut lease = Budget::new(limits.bodies, 0).empty_lease(Holder::Anybody);
        let bytes = read(body, &HeaderMap::new(), &limits, &mut lease, None).await;
        bytes
            .map(|bytes| bytes.len())
            .map_err(|refusal| refusal.status().as_u16())
    }

    #[tokio::test]
    async fn drops_each_piece_before_the_next() {
        assert_eq!(read_pieces(1000, 10, 10_000).await, Ok(10_000));
        assert_eq!(read_pieces(1000, 10, 9_999).await, Err(413));
    }

    #[tokio::test]
    async fn refuses_body_of_too_many_tiny_pieces() {
        const MAX: usize = 64 << 20;
        assert_eq!(read_pieces(MAX_PIECES, 1, MAX).await, Ok(MAX_PIECES));
        assert_eq!(read_pieces(20_000, 1, MAX).await, Err(413));
        // The size of the smallest usual TCP segments.
        assert_eq!(read_pieces(100_000, 536, MAX).await, Ok(53_600_000));
    }

    #[tokio::test]
    async fn discards_limited_rest_of_body() {
        for (count, size, discarded) in [
            (1_000, 1_000, 1_000),
            (5_000, 1_024, 4_096),
            (20_000, 1, 16_384),
        ] {
            let body = SharedBody::new(pieces(count + 1, size));
            // The reader drops the body after its first piece.
            Body::new(body.clone()).frame().await.unwrap().unwrap();
            let found = Cell::new(0);
            discard(body, || found.set(found.get() + 1)).await;
            assert_eq!(found.get(), discarded, "{count} {size}");
        }
    }
}
