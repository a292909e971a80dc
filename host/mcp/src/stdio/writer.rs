//! Writing messages, one after the other and each of them whole.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::in_flight::Place;
use super::stream::Output;

/// Bytes that the buffer of messages keeps between them. A large one is made
/// without new memory, which takes as long to be had as to be written to.
const KEPT: usize = 4 << 20;

/// How long one message may take to be written once the server is to end.
/// Guards against: a client that has stopped reading and keeps its end open.
const STALLED: Duration = Duration::from_secs(10);

/// Where messages are handed in.
#[derive(Clone)]
pub(crate) struct Writer {
    written: Arc<Mutex<Written>>,
    /// How often a message was begun or done: odd while one is being written.
    beat: Arc<AtomicUsize>,
    /// Cancelled when nobody can be answered any more.
    gone: CancellationToken,
}

struct Written {
    output: Output,
    line: Vec<u8>,
}

impl Writer {
    /// A writer that cancels `gone` when writing fails.
    pub(crate) fn new(output: Output, gone: CancellationToken) -> Self {
        let line = Vec::new();
        Self {
            written: Arc::new(Mutex::new(Written { output, line })),
            beat: Arc::default(),
            gone,
        }
    }

    /// Writes a message when those before it are written. A thread waits for
    /// the client to take it, where that is to be expected. Whoever drops this
    /// drops the whole message or nothing of it.
    pub(crate) fn write(
        &self,
        message: ServerJsonRpcMessage,
        answered: Option<Place>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let Self {
            written,
            beat,
            gone,
        } = self.clone();
        async move {
            let mut written = written.lock_owned().await;
            if gone.is_cancelled() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let Written { output, line } = &mut *written;
            line.clear();
            line.shrink_to(KEPT);
            serde_json::to_writer(&mut *line, &message)?;
            line.push(b'\n');
            drop(message);
            let at_once = output.takes(line.len());
            let write = move || {
                let Written { output, line } = &mut *written;
                beat.fetch_add(1, Ordering::Relaxed);
                let done = output.write(line);
                beat.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = &done {
                    tracing::warn!("the client cannot be answered any more: {error}");
                    gone.cancel();
                }
                drop(answered);
                done
            };
            match at_once {
                true => write(),
                false => spawn_blocking(write).await?,
            }
        }
    }

    /// Waits until what is being written, and what waits for that, is written.
    pub(crate) async fn finish(&self) {
        drop(self.written.lock().await);
    }

    /// Returns when a message has taken too long to be written.
    pub(crate) async fn stalled(&self) {
        const LOOKS: u32 = 10;
        let (mut alike, mut last) = (0, 0);
        while alike < LOOKS {
            sleep(STALLED / LOOKS).await;
            let now = self.beat.load(Ordering::Relaxed);
            alike = match now % 2 == 1 && now == last {
                true => alike + 1,
                false => 0,
            };
            last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read as _, pipe};
    use std::thread;

    use rmcp::model::{ErrorData, JsonRpcMessage};

    use super::*;

    fn message(text: &str) -> ServerJsonRpcMessage {
        let error = ErrorData::internal_error(text.to_owned(), None);
        JsonRpcMessage::error(error, None)
    }

    fn texts(mut reader: PipeReader) -> Vec<String> {
        let mut lines = String::new();
        reader.read_to_string(&mut lines).unwrap();
        let text = |line| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            message["error"]["message"].as_str().unwrap().to_owned()
        };
        lines.lines().map(text).collect()
    }

    #[tokio::test]
    async fn messages_are_written_in_their_order_and_whole_before_it_ends() {
        let (reader, output) = pipe().unwrap();
        let output = Output::new(output).unwrap();
        let writer = Writer::new(output, CancellationToken::new());
        let large = "x".repeat(1 << 20);
        let texts_written = ["first", &large, "last"];
        let mut writing = tokio::task::JoinSet::new();
        for text in texts_written {
            writing.spawn(writer.write(message(text), None));
            tokio::task::yield_now().await;
        }
        // The first fits into the pipe, and the others wait for a reader.
        writing.join_next().await.unwrap().unwrap().unwrap();
        assert!(writing.try_join_next().is_none());
        let read = thread::spawn(move || texts(reader));
        writer.finish().await;
        drop((writer, writing.join_all().await));
        assert_eq!(read.join().unwrap(), texts_written);
    }

    #[tokio::test]
    async fn a_message_that_is_given_up_is_written_whole() {
        let (reader, output) = pipe().unwrap();
        let output = Output::new(output).unwrap();
        let writer = Writer::new(output, CancellationToken::new());
        let large = "x".repeat(1 << 20);
        let given_up = tokio::spawn(writer.write(message(&large), None));
        while writer.beat.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        given_up.abort();
        let read = thread::spawn(move || texts(reader));
        writer.finish().await;
        drop(writer);
        assert_eq!(read.join().unwrap(), [large]);
    }

    #[tokio::test]
    async fn what_cannot_be_written_says_that_nobody_can_be_answered() {
        for text in ["lost", &"x".repeat(1 << 20)] {
            let (reader, output) = pipe().unwrap();
            drop(reader);
            let gone = CancellationToken::new();
            let writer = Writer::new(Output::new(output).unwrap(), gone.clone());
            assert!(writer.write(message(text), None).await.is_err());
            assert!(gone.is_cancelled());
            assert!(writer.write(message("lost, too"), None).await.is_err());
        }
    }
}
