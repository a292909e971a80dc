//! Write timeouts: the writes of a connection fail if its peer does not read. Otherwise the peer
//! could keep responses in memory for as long as it likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::slots::ConnectionSlot;

/// The number of bytes that a peer must read in each period, if that many wait for it. Guards
/// against: a peer that reads a large response byte by byte.
const MIN_BYTES: usize = 256 << 10;

/// A stream whose writes fail if the peer is too slow.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    period: Duration,
    /// The end of the current period, while bytes wait for the peer.
    timer: Pin<Box<Sleep>>,
    /// The number of bytes that the peer read in this period. `None` while no bytes wait.
    read: Option<usize>,
    /// True while bytes wait for the peer.
    has_unwritten: Arc<AtomicBool>,
    /// The number of bytes written so far.
    written: Arc<AtomicUsize>,
    /// The slot that counts the bytes that the peer sends.
    slot: Option<Arc<ConnectionSlot>>,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S, period: Duration, slot: Option<Arc<ConnectionSlot>>) -> Self {
        Self {
            stream,
            slot,
            period,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            read: None,
            has_unwritten: Arc::default(),
            written: Arc::default(),
        }
    }

    /// Returns a flag that is true while bytes wait for the peer.
    pub(crate) fn has_unwritten(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_unwritten)
    }

    /// Returns a count of the bytes written so far.
    pub(crate) fn written(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.written)
    }

    fn begin_period(&mut self) {
        self.read = Some(0);
        self.timer.as_mut().reset(Instant::now() + self.period);
    }

    /// Returns the outcome of a write, or an error if the peer was too slow.
    fn check(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if let Poll::Ready(Ok(count)) = &written {
                self.written.fetch_add(*count, Ordering::Relaxed);
                if let Some(read) = &mut self.read {
                    *read = read.saturating_add(*count);
                }
            }
            return written;
        }
        if self.read.is_none() {
            self.has_unwritten.store(true, Ordering::Relaxed);
            self.begin_period();
        }
        while self.timer.as_mut().poll(context).is_ready() {
            if self.read.is_some_and(|read| read < MIN_BYTES) {
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(slot) = &self.slot
            && !slot.add_received(buffer.filled().len() - before)
        {
            return Poll::Ready(Err(io::Error::other("the head of a chunk is too long")));
        }
        read
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
        // Called once everything is written, so no bytes wait.
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.read = None;
        self.has_unwritten.store(false, Ordering::Relaxed);
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::timeout;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(5);

    /// Writes until a write fails. Returns the time that this took.
    async fn time_until_error(stream: &mut (impl AsyncWrite + Unpin)) -> Duration {
        let start = Instant::now();
        let failed = timeout(LONG, async {
            while stream.write_all(&[0; 1024]).await.is_ok() {}
        });
        failed.await.expect("no write failed");
        start.elapsed()
    }

    #[tokio::test]
    async fn fails_after_period_with_too_few_bytes_read() {
        let (stream, mut peer) = duplex(1024);
        let mut stream = WriteTimeout::new(stream, PERIOD, None);
        stream.write_all(&[0; 1024]).await.unwrap();
        // The period begins when bytes wait for the peer.
        peer.read_exact(&mut [0; 1024]).await.unwrap();
        assert!(time_until_error(&mut stream).await >= PERIOD);
    }

    #[tokio::test]
    async fn starts_next_period_when_enough_bytes_are_read() {
        let (stream, mut peer) = duplex(64 << 10);
        let mut stream = WriteTimeout::new(stream, PERIOD, None);
        let read = tokio::spawn(async move {
            peer.read_exact(&mut [0; 256 << 10]).await.unwrap();
            peer
        });
        assert!(time_until_error(&mut stream).await >= 2 * PERIOD);
        drop(read.await);
    }

    #[tokio::test]
    async fn fails_when_peer_reads_slowly() {
        let (stream, mut peer) = duplex(1024);
        let mut stream = WriteTimeout::new(stream, PERIOD, None);
        // At most 160 KiB in a period, until the connection ends.
        let read = tokio::spawn(async move {
            while peer.read_exact(&mut [0; 16 << 10]).await.is_ok() {
                tokio::time::sleep(PERIOD / 10).await;
            }
        });
        assert!(time_until_error(&mut stream).await >= PERIOD);
        read.abort();
    }

    #[tokio::test]
    async fn idle_time_does_not_count() {
        let (stream, mut peer) = duplex(1024);
        let mut stream = WriteTimeout::new(stream, PERIOD, None);
        let text: Vec<u8> = (0..5000).map(|number| number as u8).collect();
        let mut read = vec![0; text.len()];
        let (written, _) = tokio::join!(stream.write_all(&text), peer.read_exact(&mut read));
        written.unwrap();
        assert!(read == text);
        stream.flush().await.unwrap();
        tokio::time::sleep(2 * PERIOD).await;
        assert!(time_until_error(&mut stream).await >= PERIOD);
    }

    #[tokio::test]
    async fn peer_sees_end_of_stream() {
        let (stream, mut peer) = duplex(1024);
        let mut stream = WriteTimeout::new(stream, PERIOD, None);
        stream.shutdown().await.unwrap();
        let read = timeout(LONG, peer.read(&mut [0; 1])).await;
        assert_eq!(read.unwrap().unwrap(), 0);
    }
}
