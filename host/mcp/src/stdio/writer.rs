//! Writing messages, one after the other and each of them whole. Who has a
//! message and finds nobody writing writes it; the others' messages are written
//! by a thread, in the order in which they came.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::in_flight::Place;
use super::outgoing::Outgoing;
use super::pulse::Pulse;

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
    stream: Arc<Stream>,
    frames: mpsc::Sender<Option<Frame>>,
}

struct Frame {
    message: Outgoing,
    /// The request that this answers.
    _answered: Option<Place>,
}

struct Stream {
    output: Mutex<Output>,
    /// Messages that wait to be written, or are being written, by the thread.
    waiting: AtomicUsize,
    writing: Pulse,
    gone: CancellationToken,
}

struct Output {
    stream: Box<dyn Write + Send>,
    line: Vec<u8>,
}

impl Writer {
    /// Starts the thread. When writing fails, nobody can be answered any more:
    /// `gone` is cancelled. The thread ends when it is [told to](Self::finish),
    /// and what it waits for is told of that.
    pub(crate) fn start(
        output: impl Write + Send + 'static,
        gone: CancellationToken,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (frames, mut waiting) = mpsc::channel::<Option<Frame>>(WAITING);
        let (done, written) = oneshot::channel();
        let stream = Arc::new(Stream {
            output: Mutex::new(Output {
                stream: Box::new(output),
                line: Vec::new(),
            }),
            waiting: AtomicUsize::new(0),
            writing: Pulse::default(),
            gone,
        });
        let streamed = Arc::clone(&stream);
        thread::Builder::new()
            .name("skillhost-writer".to_owned())
            .spawn(move || {
                while let Some(Some(frame)) = waiting.blocking_recv() {
                    streamed.write(&mut streamed.output(), &frame.message);
                    streamed.waiting.fetch_sub(1, Ordering::SeqCst);
                }
                let _ = done.send(());
            })?;
        Ok((Self { stream, frames }, written))
    }

    /// Hands in a message. Returns when it has its place in the order.
    pub(crate) fn write(
        &self,
        message: Outgoing,
        answered: Option<Place>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (stream, frames) = (Arc::clone(&self.stream), self.frames.clone());
        async move {
            let place = frames.reserve().await.map_err(|_| gone())?;
            stream.waiting.fetch_add(1, Ordering::SeqCst);
            place.send(Some(Frame {
                message,
                _answered: answered,
            }));
            Ok(())
        }
    }

    /// Writes a message on this thread, if no other is being written or waits
    /// for that. Returns whether it did.
    pub(crate) fn write_here(&self, message: &Outgoing) -> bool {
        if self.stream.waiting.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let mut output = match self.stream.output.try_lock() {
            Ok(output) => output,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        self.stream.write(&mut output, message);
        true
    }

    /// Lets the thread write what it was handed in, and end.
    pub(crate) async fn finish(&self) {
        let _ = self.frames.send(None).await;
    }

    /// Returns when a message has taken too long to be written.
    pub(crate) async fn stalled(&self) {
        const LOOKS: u32 = 10;
        let mut alike = 0;
        let mut last = self.stream.writing.beat();
        while alike < LOOKS {
            sleep(STALLED / LOOKS).await;
            let now = self.stream.writing.beat();
            alike = match now.is_at_work() && now == last {
                true => alike + 1,
                false => 0,
            };
            last = now;
        }
    }
}

impl Stream {
    fn output(&self) -> MutexGuard<'_, Output> {
        self.output
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    fn write(&self, Output { stream, line }: &mut Output, message: &Outgoing) {
        if self.gone.is_cancelled() {
            return;
        }
        line.clear();
        line.shrink_to(KEPT);
        let written = self.writing.during(|| {
            message.write(line)?;
            stream.write_all(line)?;
            stream.flush()
        });
        if let Err(error) = written {
            tracing::warn!("the client cannot be answered any more: {error}");
            self.gone.cancel();
        }
    }
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter, Read as _, pipe};

    use rmcp::model::{ErrorData, JsonRpcMessage};

    use super::*;

    fn message(text: &str) -> Outgoing {
        let error = ErrorData::internal_error(text.to_owned(), None);
        Outgoing::from(JsonRpcMessage::error(error, None))
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

    /// An output that begins to write when it is told to.
    struct Gated(std::sync::mpsc::Receiver<()>, PipeWriter);

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error says that the gate is open for good.
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.1.flush()
        }
    }

    #[tokio::test]
    async fn messages_are_written_in_their_order_and_whole_before_it_ends() {
        let (reader, output) = pipe().unwrap();
        let (gate, gated) = std::sync::mpsc::channel();
        let (writer, written) =
            Writer::start(Gated(gated, output), CancellationToken::new()).unwrap();
        let large = "x".repeat(1 << 20);
        for text in ["first", &large, "last"] {
            writer.write(message(text), None).await.unwrap();
            assert!(!writer.write_here(&message("out of turn")), "{text:.9}");
        }
        let read = thread::spawn(move || texts(reader));
        drop(gate);
        writer.finish().await;
        written.await.unwrap();
        assert!(writer.write_here(&message("here")));
        drop(writer);
        assert_eq!(read.join().unwrap(), ["first", &large, "last", "here"]);
    }

    #[tokio::test]
    async fn what_cannot_be_written_says_that_nobody_can_be_answered() {
        for here in [true, false] {
            let (reader, output) = pipe().unwrap();
            drop(reader);
            let gone = CancellationToken::new();
            let (writer, written) = Writer::start(output, gone.clone()).unwrap();
            match here {
                true => assert!(writer.write_here(&message("lost"))),
                false => writer.write(message("lost"), None).await.unwrap(),
            }
            gone.cancelled().await;
            // What is handed in now is taken, and goes nowhere.
            writer.write(message("lost, too"), None).await.unwrap();
            writer.finish().await;
            written.await.unwrap();
        }
    }
}
