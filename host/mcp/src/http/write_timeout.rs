//! A connection whose writes fail when its peer does not read. Otherwise answers
//! would stay in memory for as long as the peer likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The bytes that a peer must read in each period, if so many wait for it.
/// Guards against: a peer that reads a large answer byte by byte.
const LEAST_BYTES: usize = 256 << 10;

/// A stream whose writes fail once the peer is too slow.
pub(super) struct WriteTimeout<S> {
    stream: S,
    period: Duration,
    /// The end of the current period, while bytes wait for the peer.
    timer: Pin<Box<Sleep>>,
    /// The bytes that the peer read in this period. None while none wait.
    read: Option<usize>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, period: Duration) -> Self {
        Self {
            stream,
            period,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            read: None,
        }
    }

    fn begin_period(&mut self) {
        self.read = Some(0);
        self.timer.as_mut().reset(Instant::now() + self.period);
    }

    /// Passes the outcome of a write on, or an error if the peer was too slow.
    fn check(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if let (Poll::Ready(Ok(count)), Some(read)) = (&written, &mut self.read) {
                *read = read.saturating_add(*count);
            }
            return written;
        }
        if self.read.is_none() {
            self.begin_period();
        }
        while self.timer.as_mut().poll(context).is_ready() {
            if self.read.is_some_and(|read| read < LEAST_BYTES) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.begin_period();
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.check(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Called when all was written: no bytes wait any more.
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.read = None;
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
