//! Writing messages, one after the other, by a task of its own: an answer is
//! written whole or the stream is broken, whoever gives up waiting for it.
//!
//! A message that is larger than what a pipe holds is written by a thread that
//! waits in the kernel. Being told each time that there is room again, and
//! coming back with more, takes as long as the rest of such a call.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
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

/// What a pipe holds, where nothing else was asked for.
const PIPE: usize = 64 << 10;

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
    /// Starts writing. `waited` is another way to the same stream, where a
    /// thread may wait for it. When writing fails, nobody can be answered any
    /// more: `gone` is cancelled. The task ends when all writers are gone and
    /// what they handed in is written.
    pub(crate) fn start(
        output: impl AsyncWrite + Send + Unpin + 'static,
        waited: Option<File>,
        closing: CancellationToken,
        gone: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let (frames, waiting) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move {
            let written = tokio::select! {
                written = write_all(output, waited, waiting, closing) => written,
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
    waited: Option<File>,
    mut frames: mpsc::Receiver<Frame>,
    closing: CancellationToken,
) -> io::Result<()> {
    let waited = waited.map(Arc::new);
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
            let mut at = 0;
            if let Some(waited) = waited.as_ref().filter(|_| line.len() > PIPE) {
                (line, at) = write_waiting(Arc::clone(waited), line).await?;
            }
            output.write_all(&line[at..]).await?;
            output.flush().await?;
            Ok::<_, io::Error>(line)
        };
        line = tokio::select! {
            biased;
            written = written => written?,
            () = stalled => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
    Ok(())
}

/// Writes a line, and gives it back with how much of it is written: all of it,
/// unless somebody else who has the stream has made it one not to wait for.
async fn write_waiting(stream: Arc<File>, line: Vec<u8>) -> io::Result<(Vec<u8>, usize)> {
    let written = tokio::task::spawn_blocking(move || {
        let mut at = 0;
        while at < line.len() {
            match (&*stream).write(&line[at..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => at += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok((line, at))
    });
    written.await?
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read as _};
    use std::os::fd::OwnedFd;

    use rmcp::model::{ErrorData, JsonRpcMessage};
    use tokio::net::unix::pipe::Sender;

    use super::*;

    /// What comes out of a pipe that a small, a large and a small message are
    /// written to.
    async fn written(
        output: impl AsyncWrite + Send + Unpin + 'static,
        waited: Option<File>,
        mut reader: PipeReader,
    ) -> Vec<usize> {
        let read = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        let never = CancellationToken::new();
        let (writer, done) = Writer::start(output, waited, never.clone(), never);
        for length in [1, 5 * PIPE, 1] {
            let error = ErrorData::internal_error("x".repeat(length), None);
            let message = JsonRpcMessage::error(error, None);
            writer.write(message, None).await.unwrap();
        }
        drop(writer);
        done.await.unwrap();
        let text = read.join().unwrap();
        text.lines().map(|line| line.matches('x').count()).collect()
    }

    #[tokio::test]
    async fn a_large_message_alone_goes_the_way_that_a_thread_waits_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        let waited = OwnedFd::from(writer).into();
        let lines = written(tokio::io::sink(), Some(waited), reader).await;
        assert_eq!(lines, [5 * PIPE]);
    }

    #[tokio::test]
    async fn large_messages_are_whole_where_the_stream_is_not_to_be_waited_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        let waited = OwnedFd::from(writer.try_clone().unwrap()).into();
        // The two have one description of the stream, and this changes it.
        let output = Sender::from_owned_fd(writer.into()).unwrap();
        let lines = written(output, Some(waited), reader).await;
        assert_eq!(lines, [1, 5 * PIPE, 1]);
    }
}
