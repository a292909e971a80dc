//! Notices that the peer of a connection is gone, so that its call can end.
//!
//! A peer may close only its sending side and still read the answer. TCP does not tell that from
//! a peer that has closed the connection, until the server sends something. So the server sends
//! interim answers, `100 Continue`, which every client of HTTP/1.1 skips. The machine of a peer
//! that is gone resets the connection then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::Version;
use rustix::io::Errno;
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::time::timeout;

use crate::stream::Stream;

/// The interim answer that tells whether the peer still reads.
const INTERIM_ANSWER: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The pause between two interim answers.
const INTERIM_PAUSE: Duration = Duration::from_secs(1);

/// Watches the peer of a connection beside the protocol.
pub(crate) struct PeerWatch {
    stream: Stream,
    is_encrypted: bool,
    /// True while a part of an answer waits to be written. An interim answer would get into it.
    has_unwritten: Arc<AtomicBool>,
    answer: Receiver<AnswerState>,
}

/// The state of the answer to the latest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerState {
    /// There is no request, or all of its answer is known.
    Known,
    /// The answer has not begun.
    Awaited(Version),
    /// The answer is a stream that has begun.
    Streamed,
}

impl PeerWatch {
    /// Watches the peer of a stream through a second handle. The returned sender takes the state of
    /// the answers.
    pub(crate) fn new(
        stream: Stream,
        is_encrypted: bool,
        has_unwritten: Arc<AtomicBool>,
    ) -> (Self, Sender<AnswerState>) {
        let (sender, answer) = watch::channel(AnswerState::Known);
        let watch = Self {
            stream,
            is_encrypted,
            has_unwritten,
            answer,
        };
        (watch, sender)
    }

    /// Waits until the peer is gone. A peer that has closed only its sending side counts as gone if
    /// it cannot be asked: during a stream, within TLS, or with an old version of HTTP.
    pub(crate) async fn gone(self) {
        self.stream.read_closed().await;
        // An interim answer within TLS would have to be encrypted.
        if self.is_encrypted {
            return;
        }
        tokio::select! {
            () = self.stream.write_closed() => {}
            () = self.probe() => {}
        }
    }

    /// Sends interim answers while a request has no answer. Returns if the peer is gone.
    async fn probe(&self) {
        let mut answer = self.answer.clone();
        loop {
            let state = *answer.borrow_and_update();
            let asks = match (state, &self.stream) {
                // The kernel itself tells when the peer of a Unix socket has closed it.
                (AnswerState::Awaited(_), Stream::Unix(_)) | (AnswerState::Known, _) => false,
                (AnswerState::Awaited(Version::HTTP_11), Stream::Tcp(_)) => true,
                // An older client would take an interim answer for the answer. A stream can have
                // nothing to send for long.
                (AnswerState::Awaited(_), Stream::Tcp(_)) | (AnswerState::Streamed, _) => return,
            };
            if asks && !self.has_unwritten.load(Ordering::Relaxed) {
                match self.stream.send_now(INTERIM_ANSWER) {
                    // Earlier bytes are still unread, and have the same effect.
                    Err(Errno::AGAIN) => {}
                    Ok(count) if count == INTERIM_ANSWER.len() => {}
                    _ => return,
                }
            }
            let pause = if asks { INTERIM_PAUSE } else { Duration::MAX };
            if let Ok(Err(_)) = timeout(pause, answer.changed()).await {
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
        let (watch, answers) = PeerWatch::new(stream, false, Arc::default());
        let mut gone = pin!(watch.gone());
        peer.shutdown().await.unwrap();
        assert_pending(&mut gone).await;
        for version in [Version::HTTP_11; 2] {
            answers.send_replace(AnswerState::Awaited(version));
            assert_pending(&mut gone).await;
            answers.send_replace(AnswerState::Known);
        }
        let mut interim = [0; 2 * INTERIM_ANSWER.len()];
        let read = timeout(LONG, peer.read_exact(&mut interim)).await;
        read.unwrap().unwrap();
        assert_eq!(interim[..], [INTERIM_ANSWER; 2].concat());
        // The peer is asked again, without another request.
        answers.send_replace(AnswerState::Awaited(Version::HTTP_11));
        let more = peer.read_exact(&mut interim);
        tokio::select! {
            () = &mut gone => panic!("the peer counts as gone"),
            read = timeout(LONG, more) => read.unwrap().unwrap(),
        };
        drop(peer);
        timeout(LONG, gone).await.unwrap();
    }

    #[tokio::test]
    async fn sends_nothing_between_parts_of_an_answer() {
        let (stream, mut peer) = tcp_pair().await;
        let unwritten = Arc::new(AtomicBool::new(true));
        let (watch, answers) = PeerWatch::new(stream, false, Arc::clone(&unwritten));
        answers.send_replace(AnswerState::Awaited(Version::HTTP_11));
        peer.shutdown().await.unwrap();
        let mut gone = pin!(watch.gone());
        assert_pending(&mut gone).await;
        assert!(peer.try_read(&mut [0]).is_err(), "it was sent something");
        unwritten.store(false, Ordering::Relaxed);
        let mut interim = [0; INTERIM_ANSWER.len()];
        tokio::select! {
            () = &mut gone => panic!("the peer counts as gone"),
            read = timeout(LONG, peer.read_exact(&mut interim)) => read.unwrap().unwrap(),
        };
    }

    #[tokio::test]
    async fn half_closed_peer_that_cannot_be_asked_is_gone() {
        for (is_encrypted, state) in [
            (true, AnswerState::Awaited(Version::HTTP_11)),
            (false, AnswerState::Awaited(Version::HTTP_10)),
            (false, AnswerState::Streamed),
        ] {
            let (stream, mut peer) = tcp_pair().await;
            let (watch, answers) = PeerWatch::new(stream, is_encrypted, Arc::default());
            answers.send_replace(state);
            peer.shutdown().await.unwrap();
            timeout(LONG, watch.gone()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn sends_nothing_to_half_closed_peer_of_unix_socket() {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (watch, answers) = PeerWatch::new(Stream::Unix(stream), false, Arc::default());
        answers.send_replace(AnswerState::Awaited(Version::HTTP_11));
        peer.shutdown().await.unwrap();
        let mut gone = pin!(watch.gone());
        assert_pending(&mut gone).await;
        assert!(peer.try_read(&mut [0]).is_err(), "it was sent something");
        drop(peer);
        timeout(LONG, gone).await.unwrap();
    }
}
