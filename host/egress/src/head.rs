//! A limit on what a server sends before its response makes progress: before the final head is
//! complete, and before each frame of the body.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that fails if the server sends too much without progress of the response.
///
/// hyper skips any number of informational heads, such as those with status 103, and of zeros and
/// blanks in the size of a chunk. rustls skips empty records and session tickets, so the limit is
/// below TLS.
pub(crate) struct HeadLimit<S> {
    stream: S,
    /// The maximum number of bytes without progress.
    max: usize,
    received: Arc<AtomicUsize>,
}

impl<S> HeadLimit<S> {
    /// Limits the bytes without progress to `max`.
    pub(crate) fn new(stream: S, max: usize) -> Self {
        Self {
            stream,
            max,
            received: Arc::default(),
        }
    }

    /// Returns the number of bytes since the last progress. The reader of the response resets it.
    pub(crate) fn received(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.received)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - start;
        if self.received.fetch_add(read, Ordering::Relaxed) + read > self.max {
            let why = "the server sent too much without a complete head or a part of the body";
            return Poll::Ready(Err(io::Error::other(why)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
