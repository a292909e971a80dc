//! Notices that the peer of a connection is gone, so that its call can end.
//!
//! A peer may close only its sending side and still read the answer. TCP does not tell that from
//! a peer that has closed the connection, until the server sends something. So the server sends
//! an interim answer, `100 Continue`, which every client of HTTP/1.1 skips. The machine of a peer
//! that is gone resets the connection then.

use std::io;

use axum::http::Version;
use tokio::sync::watch::{self, Receiver, Sender};

use crate::stream::Stream;

/// The interim answer that tells whether the peer still reads.
const INTERIM_ANSWER: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Watches the peer of a connection beside the protocol.
pub(crate) struct PeerWatch {
    stream: Stream,
    is_encrypted: bool,
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
    /// Watches the peer of a stream. The state of its answers is told to the sender.
    pub(crate) fn new(
        stream: &Stream,
        is_encrypted: bool,
    ) -> io::Result<(Self, Sender<AnswerState>)> {
        let (told, answer) = watch::channel(AnswerState::Known);
        let watch = Self {
            stream: stream.second_handle()?,
            is_encrypted,
            answer,
        };
        Ok((watch, told))
    }

    /// Waits until the peer is gone: it has closed the connection, or its sending side during a
    /// stream or TLS.
    pub(crate) async fn gone(mut self) {
        self.stream.read_closed().await;
        // A stream can have nothing to send for long. An interim answer within TLS would have
        // to be encrypted.
        if self.is_encrypted || *self.answer.borrow() == AnswerState::Streamed {
            return;
        }
        tokio::select! {
            () = self.stream.write_closed() => {}
            () = probe(&self.stream, &mut self.answer) => {}
        }
    }
}

/// Sends an interim answer for each request that has no answer yet. Returns if that fails.
async fn probe(stream: &Stream, answer: &mut Receiver<AnswerState>) {
    loop {
        let state = *answer.borrow_and_update();
        // An older client would take it for the answer. The kernel itself tells when the peer
        // of a Unix socket has closed it.
        if let (AnswerState::Awaited(Version::HTTP_11), Stream::Tcp(_)) = (state, stream)
            && stream.send_now(INTERIM_ANSWER) != Ok(INTERIM_ANSWER.len())
        {
            return;
        }
        if answer.changed().await.is_err() {
            // The connection ends.
            return std::future::pending().await;
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
        let (watch, answers) = PeerWatch::new(&stream, false).unwrap();
        let mut gone = pin!(watch.gone());
        peer.shutdown().await.unwrap();
        assert_pending(&mut gone).await;
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_11] {
            answers.send_replace(AnswerState::Awaited(version));
            assert_pending(&mut gone).await;
            answers.send_replace(AnswerState::Known);
        }
        let mut interim = [0; 2 * INTERIM_ANSWER.len()];
        let read = timeout(LONG, peer.read_exact(&mut interim)).await;
        read.unwrap().unwrap();
        assert_eq!(interim[..], [INTERIM_ANSWER; 2].concat());
        drop(peer);
        answers.send_replace(AnswerState::Awaited(Version::HTTP_11));
        timeout(LONG, gone).await.unwrap();
    }

    #[tokio::test]
    async fn half_closed_peer_of_stream_or_tls_is_gone() {
        for (is_encrypted, state) in [
            (true, AnswerState::Awaited(Version::HTTP_11)),
            (false, AnswerState::Streamed),
        ] {
            let (stream, mut peer) = tcp_pair().await;
            let (watch, answers) = PeerWatch::new(&stream, is_encrypted).unwrap();
            answers.send_replace(state);
            peer.shutdown().await.unwrap();
            timeout(LONG, watch.gone()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn sends_nothing_to_half_closed_peer_of_unix_socket() {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let (watch, answers) = PeerWatch::new(&Stream::Unix(stream), false).unwrap();
        answers.send_replace(AnswerState::Awaited(Version::HTTP_11));
        peer.shutdown().await.unwrap();
        let mut gone = pin!(watch.gone());
        assert_pending(&mut gone).await;
        assert!(peer.try_read(&mut [0]).is_err(), "it was sent something");
        drop(peer);
        timeout(LONG, gone).await.unwrap();
    }
}
