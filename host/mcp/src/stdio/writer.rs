//! Writes messages one after the other, and each of them whole.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::in_flight::RequestSlot;
use super::stream::OutputStream;

/// The bytes that the buffer keeps between messages. To get them anew for a large
/// message takes as long as to fill them.
const BUFFER_BYTES: usize = 4 << 20;

/// The longest time that writing one message may take while the server ends. Guards
/// against: a client that has stopped reading and keeps its end open.
const MAX_WRITE_TIME: Duration = Duration::from_secs(10);

/// The writer of all messages to a client. Clones write to the same stream.
#[derive(Clone)]
pub(crate) struct MessageWriter {
    state: Arc<Mutex<WriterState>>,
    /// The number of writes begun and ended: odd while a message is being written.
    writes: Arc<AtomicUsize>,
    /// Cancelled when nobody can be answered any more.
    gone: CancellationToken,
}

struct WriterState {
    output: OutputStream,
    line: Vec<u8>,
}

impl MessageWriter {
    /// Makes a writer that cancels `gone` when writing fails.
    pub(crate) fn new(output: OutputStream, gone: CancellationToken) -> Self {
        let line = Vec::new();
        Self {
            state: Arc::new(Mutex::new(WriterState { output, line })),
            writes: Arc::default(),
            gone,
        }
    }

    /// Writes a message after those before it. If the client may make it wait, a
    /// thread writes it. A dropped future leaves the message whole or unwritten.
    pub(crate) fn write(
        &self,
        message: ServerJsonRpcMessage,
        answered: Option<RequestSlot>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let Self {
            state,
            writes,
            gone,
        } = self.clone();
        async move {
            let mut state = state.lock_owned().await;
            if gone.is_cancelled() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let WriterState { output, line } = &mut *state;
            line.clear();
            line.shrink_to(BUFFER_BYTES);
            serde_json::to_writer(&mut *line, &message)?;
            line.push(b'\n');
            drop(message);
            let at_once = output.takes(line.len());
            let write = move || {
                let WriterState { output, line } = &mut *state;
                writes.fetch_add(1, Ordering::Relaxed);
                let done = output.write(line);
                writes.fetch_add(1, Ordering::Relaxed);
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

    /// Waits until all messages so far are written.
    pub(crate) async fn finish(&self) {
        drop(self.state.lock().await);
    }

    /// Waits until a message has taken too long to be written.
    pub(crate) async fn stalled(&self) {
        self.stalled_by(sleep).await;
    }

    /// The same, with another way to wait.
    async fn stalled_by<W: Future<Output = ()>>(&self, sleep: impl Fn(Duration) -> W) {
        const CHECKS: u32 = 10;
        let (mut alike, mut last) = (0, 0);
        while alike < CHECKS {
            sleep(MAX_WRITE_TIME / CHECKS).await;
            let now = self.writes.load(Ordering::Relaxed);
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
    use std::cell::Cell;
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
    async fn writes_all_messages_in_order_before_it_ends() {
        let (reader, output) = pipe().unwrap();
        let output = OutputStream::new(output).unwrap();
        let writer = MessageWriter::new(output, CancellationToken::new());
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
    async fn writes_a_message_whole_even_if_its_sender_stops_waiting() {
        let (reader, output) = pipe().unwrap();
        let output = OutputStream::new(output).unwrap();
        let writer = MessageWriter::new(output, CancellationToken::new());
        let large = "x".repeat(1 << 20);
        let dropped = tokio::spawn(writer.write(message(&large), None));
        while writer.writes.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        dropped.abort();
        let read = thread::spawn(move || texts(reader));
        writer.finish().await;
        drop(writer);
        assert_eq!(read.join().unwrap(), [large]);
    }

    #[tokio::test]
    async fn a_message_that_is_not_written_in_ten_seconds_has_stalled() {
        for earlier in [0, 1, 60].map(Duration::from_secs) {
            let (_reader, output) = pipe().unwrap();
            let output = OutputStream::new(output).unwrap();
            let writer = MessageWriter::new(output, CancellationToken::new());
            writer.writes.fetch_add(1, Ordering::Relaxed);
            let waited = Cell::new(Duration::ZERO);
            let wait = |pause| {
                if waited.get() < earlier {
                    // One message ends, and the next one begins.
                    writer.writes.fetch_add(2, Ordering::Relaxed);
                }
                waited.set(waited.get() + pause);
                std::future::ready(())
            };
            writer.stalled_by(wait).await;
            // A look may come late.
            let waited = waited.get() - earlier;
            let expected = Duration::from_secs(10)..=Duration::from_secs(12);
            assert!(expected.contains(&waited), "{waited:?} after {earlier:?}");
        }
    }

    #[tokio::test]
    async fn a_failed_write_cancels_what_waits_for_answers() {
        for text in ["lost", &"x".repeat(1 << 20)] {
            let (reader, output) = pipe().unwrap();
            drop(reader);
            let gone = CancellationToken::new();
            let writer = MessageWriter::new(OutputStream::new(output).unwrap(), gone.clone());
            assert!(writer.write(message(text), None).await.is_err());
            assert!(gone.is_cancelled());
            assert!(writer.write(message("also lost"), None).await.is_err());
        }
    }
}
