//! Writing messages, one after the other, by a task of its own: an answer is
//! written whole or the stream is broken, whoever gives up waiting for it.

use std::io;
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::in_flight::Place;

/// Messages that wait to be written. Those who have more wait.
const WAITING: usize = 16;

/// Bytes that the buffer of messages keeps between them. A large one is made
/// without new memory, which takes as long to be had as to be written to.
const KEPT: usize = 4 << 20;

/// How long one message may take to be written once the server is to end.
/// Meets: a client that has stopped reading and keeps its end open.
const STALLED: Duration = Duration::from_secs(10);

/// Where messages are handed in.
#[derive(Clone)]
pub(crate) struct Writer {
    frames: mpsc::Sender<Frame>,
}

struct Frame {
    message: ServerJsonRpcMessage,
    /// The request that this answers.
    _answered: Option<Place>,
}

impl Writer {
    /// Starts writing. When that fails, nobody can be answered any more: `gone`
    /// is cancelled. The task ends when all writers are gone and what they
    /// handed in is written.
    pub(crate) fn start(
        output: impl AsyncWrite + Send + Unpin + 'static,
        closing: CancellationToken,
        gone: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let (frames, waiting) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move {
            let written = tokio::select! {
                written = write_all(output, waiting, closing) => written,
                () = gone.cancelled() => return,
            };
            if let Err(error) = written {
                tracing::warn!("the client cannot be answered any more: {error}");
                gone.cancel();
            }
        });
        (Self { frames }, task)
    }

    /// Hands in a message. Returns when it has its place in the order.
    pub(crate) fn write(
        &self,
        message: ServerJsonRpcMessage,
        answered: Option<Place>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let frames = self.frames.clone();
        async move {
            let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            let place = frames.reserve().await.map_err(closed)?;
            place.send(Frame {
                message,
                _answered: answered,
            });
            Ok(())
        }
    }
}

async fn write_all(
    mut output: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<Frame>,
    closing: CancellationToken,
) -> io::Result<()> {
    let mut line = Vec::new();
    while let Some(frame) = frames.recv().await {
        line.clear();
        line.shrink_to(KEPT);
        serde_json::to_writer(&mut line, &frame.message)?;
        line.push(b'\n');
        let stalled = async {
            closing.cancelled().await;
            tokio::time::sleep(STALLED).await;
        };
        let written = async {
            output.write_all(&line).await?;
            output.flush().await
        };
        tokio::select! {
            biased;
            written = written => written?,
            () = stalled => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
    Ok(())
}
