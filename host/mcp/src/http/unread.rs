//! A connection that is given up when its peer does not read: what was
//! answered would stay in memory for as long as the peer likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Bytes that a peer must take in each stretch of the write time, if so many
/// wait for it. Meets: a peer that reads a large answer byte by byte.
const LEAST: usize = 256 << 10;

/// A stream whose writes fail once the peer is too slow.
pub(super) struct Unread<S> {
    stream: S,
    time: Duration,
    /// Runs while bytes wait for the peer.
    clock: Pin<Box<Sleep>>,
    /// What the peer took since the clock was set; none while nothing waits.
    taken: Option<usize>,
}

impl<S> Unread<S> {
    pub(super) fn new(stream: S, time: Duration) -> Self {
        Self {
            stream,
            time,
            clock: Box::pin(tokio::time::sleep(Duration::ZERO)),
            taken: None,
        }
    }

    fn set_clock(&mut self) {
        self.taken = Some(0);
        self.clock.as_mut().reset(Instant::now() + self.time);
    }

    /// What a write came to; an error instead of more waiting, if there was
    /// enough of that.
    fn in_time(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if let (Poll::Ready(Ok(count)), Some(taken)) = (&written, &mut self.taken) {
                *taken = taken.saturating_add(*count);
            }
            return written;
        }
        if self.taken.is_none() {
            self.set_clock();
        }
        while self.clock.as_mut().poll(context).is_ready() {
            if self.taken.is_some_and(|taken| taken < LEAST) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.set_clock();
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Asked for when all was written: nothing waits any more.
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.taken = None;
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
