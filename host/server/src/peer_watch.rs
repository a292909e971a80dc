//! Notices that the peer of a connection is gone, so that its call can end.
//!
//! A peer may close only its sending side and still read the response. Until the server sends
//! something, TCP does not distinguish such a peer from one that is gone. So the server sends
//! interim responses, `100 Continue`, which every client of HTTP/1.1 skips. If the peer is gone,
//! its machine then resets the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::Version;
use rustix::io::Errno;
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::time::timeout;

use crate::stream::Stream;

/// The interim response that tells whether the peer still reads.
const INTERIM_RESPONSE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The pause between two interim responses.
const INTERIM_PAUSE: Duration = Duration::from_secs(1);

/// A watch on the peer of a connection, independent of the protocol.
pub(crate) struct PeerWatch {
    stream: Stream,
    is_encrypted: bool,
    /// True while part of a response waits to be written. An interim response would then be sent
    /// in the middle of that response.
    has_unwritten: Arc<AtomicBool>,
    response: Receiver<ResponseState>,
}

/// The progress of the responses on a connection. The connection reports it.
#[derive(Clone)]
pub(crate) struct ResponseProgress {
    state: Sender<ResponseState>,
    has_unwritten: Arc<AtomicBool>,
    /// The number of bytes written so far.
    written: Arc<AtomicUsize>,
}

/// The state of the response to the latest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseState {
    /// No request is in flight, or its whole response is known.
    Known,
    /// The response has not begun.
    Awaited(Version),
    /// The response is a stream that has begun.
    Streamed,
}

impl ResponseProgress {
    /// Sets the state of the response to the latest request.
    pub(crate) fn set(&self, state: ResponseState) {
        self.state.send_replace(state);
    }

    /// Returns whether no request is in flight, and no part of a response waits to be written.
    pub(crate) fn is_idle(&self) -> bool {
        *self.state.borrow() == ResponseState::Known && !self.has_unwritten()
    }

    /// Returns whether part of a response waits to be written.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.has_unwritten.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }
}

impl PeerWatch {
    /// Watches the peer of a connection through a second handle of its stream. The caller reports
    /// the state of each response.
    pub(crate) fn new(
        stream: Stream,
        is_encrypted: bool,
        has_unwritten: Arc<AtomicBool>,
        written: Arc<AtomicUsize>,
    ) -> (Self, ResponseProgress) {
        let (state, response) = watch::channel(ResponseState::Known);
        let progress = ResponseProgress {
            state,
            has_unwritten: Arc::clone(&has_unwritten),
            written,
        };
        let watch = Self {
            stream,
            is_encrypted,
            has_unwritten,
            response,
        };
        (watch, progress)
    }

    /// Waits until the peer is gone. A peer that has closed only its sending side counts as gone if
    /// it cannot be asked: during a stream, within TLS, or with an old version of HTTP.
    pub(crate) async fn gone(self) {
        self.stream.read_closed().await;
        // This handle cannot encrypt an interim response.
        if self.is_encrypted {
            return;
        }
        tokio::select! {
            () = self.stream.write_closed() => {}
            () = self.ask() => {}
        }
    }

    /// Sends interim responses while a request has no response. Returns if the peer is gone or
    /// cannot be asked.
    async fn ask(&self) {
        let mut response = self.response.clone();
        loop {
            let state = *response.borrow_and_update();
            let asks = match (state, &self.stream) {
                // The kernel reports when the peer of a Unix socket has closed it.
                (ResponseState::Awaited(_), Stream::Unix(_)) | (ResponseState::Known, _) => false,
                (ResponseState::Awaited(Version::HTTP_11), Stream::Tcp(_)) => true,
                // An older client would mistake an interim response for the final one. A stream
                // can be silent for long.
                (ResponseState::Awaited(_), Stream::Tcp(_)) | (ResponseState::Streamed, _) => {
                    return;
                }
            };
            if asks && !self.has_unwritten.load(Ordering::Relaxed) {
                match self.stream.send_now(INTERIM_RESPONSE) {
                    // The peer has not read earlier bytes, which have the same effect.
                    Err(Errno::AGAIN) => {}
                    Ok(count) if count == INTERIM_RESPONSE.len() => {}
                    _ => return,
                }
            }
            let pause = if asks { INTERIM_PAUSE } else { Duration::MAX };
            if let Ok(Err(_)) = timeout(pause, response.changed()).await {
                // The connection ends.
                return std::future::pending().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream, UnixStream};
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    async fn tcp_pair() -> (Stream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap());
        let (peer, accepted) = tokio::join!(peer, listener.accept());
        (Stream::Tcp(accepted.unwrap().0), peer.unwrap())
    }

    /// Checks that a future stays pending while time passes.
    async fn assert_pending(future: impl Future<Output = ()>) {
        let soon = timeout(Duration::from_millis(50), future).await;
        assert!(soon.is_err(), "the peer counts as gone");
    }

    #[tokio::test]
    async fn keeps_half_closed_peer_until_it_is_gone() {
        let (stream, mut peer) = tcp_pair().await;
        let (watch, progress) = PeerWatch::new(stream, false, Arc::default(), Arc::default());
        let mut gone = pin!(watch.gone());
        peer.shutdown().await.unwrap();
        assert_pending(&mut gone).await;
        for version in [Version::HTTP_11; 2] {
            progress.set(ResponseState::Awaited(version));
            assert_pending(&mut gone).await;
            progress.set(ResponseState::Known);
        }
        let mut interim = [0; 2 * INTERIM_RESPONSE.len()];
        let read = timeout(LONG, peer.read_exact(&mut interim)).await;
        read.unwrap().unwrap();
        assert_eq!(interim[..], [INTERIM_RESPONSE; 2].concat());
        // The peer is asked again, without another request.
        progress.set(ResponseState::Awaited(Version::HTTP_11));
        let more = peer.read_exact(&mut interim);
        tokio::select! {
            () = &mut gone => panic!("the peer counts as gone"),
            read = timeout(LONG, more) => read.unwrap().unwrap(),
        };
        drop(peer);
        timeout(LONG, gone).await.unwrap();
    }

    #[tokio::test]
    async fn sends_nothing_between_parts_of_a_response() {
        let (stream, mut peer) = tcp_pair().await;
        let unwritten = Arc::new(AtomicBool::new(true));
        let (watch, progress) =
            PeerWatch::new(stream, false, Arc::clone(&unwritten), Arc::default());
        progress.set(ResponseState::Awaited(Version::HTTP_11));
        peer.shutdown().await.unwrap();
        let mut gone = pin!(watch.gone());
        assert_pending(&mut gone).await;
        assert!(peer.try_read(&mut [0]).is_err(), "the peer got bytes");
        unwritten.store(false, Ordering::Relaxed);
        let mut interim = [0; INTERIM_RESPONSE.len()];
        tokio::select! {
            () = &mut gone => panic!("the peer counts as gone"),
            read = timeout(LONG, peer.read_exact(&mut interim)) => read.unwrap().unwrap(),
        };
    }

    #[tokio::test]
    async fn half_closed_peer_that_cannot_be_asked_is_gone() {
        for (is_encrypted, state) in [
            (true, ResponseState::Awaited(Version::HTTP_11)),
            (false, ResponseState::Awaited(Version::HTTP_10)),
            (false, ResponseState::Streamed),
        ] {
            let (stream, mut peer) = tcp_pair().await;
            let (watch, progress) =
                PeerWatch::new(stream, is_encrypted, Arc::default(), Arc::default());
            progress.set(state);
            peer.shutdown().await.unwrap();
            timeout(LONG, watch.gone()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn sends_nothing_to_half_closed_peer_of_unix_socket() {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (watch, progress) =
            PeerWatch::new(Stream::Unix(stream), false, Arc::default(), Arc::default());
        progress.set(ResponseState::Awaited(Version::HTTP_11));
        peer.shutdown().await.unwrap();
        let mut gone = pin!(watch.gone());
        assert_pending(&mut gone).await;
        assert!(peer.try_read(&mut [0]).is_err(), "the peer got bytes");
        drop(peer);
        timeout(LONG, gone).await.unwrap();
    }
}
