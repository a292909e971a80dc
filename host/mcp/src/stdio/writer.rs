//! Writes messages one after the other, and each of them whole.

use std::io::{self, Write as _};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{ContentBlock, ErrorData, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use serde::ser;
use skillhost::internal::push_json_string;
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
    line: Line,
}

/// The line of a message.
struct Line {
    bytes: Vec<u8>,
    /// The most bytes that it may have, with its end.
    most: usize,
}

impl MessageWriter {
    /// Makes a writer of messages with at most so many bytes. It cancels `gone` when
    /// writing fails.
    pub(crate) fn new(output: OutputStream, most: usize, gone: CancellationToken) -> Self {
        let bytes = Vec::new();
        let line = Line { bytes, most };
        Self {
            state: Arc::new(Mutex::new(WriterState { output, line })),
            writes: Arc::default(),
            gone,
        }
    }

    /// Writes a message after those before it, or an error in place of one that is too
    /// large. If the client may make it wait, a thread writes it. A dropped future leaves
    /// the message whole or unwritten.
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
            line.set(message)?;
            let at_once = output.takes(line.bytes.len());
            let write = move || {
                let WriterState { output, line } = &mut *state;
                writes.fetch_add(1, Ordering::Relaxed);
                let done = output.write(&line.bytes);
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

impl Line {
    /// Becomes the line of a message, or of the error in place of one that is too large.
    fn set(&mut self, mut message: ServerJsonRpcMessage) -> serde_json::Result<()> {
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_BYTES);
        let text = take_first_text(&mut message);
        let written = serde_json::to_writer(&mut *self, &message);
        let written = match text {
            Some(text) => written.and_then(|()| self.insert_first_text(&text)),
            None => written,
        };
        match written {
            Err(error) if error.is_io() => {
                self.bytes.clear();
                let error = too_large(message, self.most);
                serde_json::to_writer(&mut *self, &error)?;
            }
            written => written?,
        }
        self.bytes.push(b'\n');
        Ok(())
    }

    /// Writes the text that was taken from a message into its place: the first empty
    /// member `text` of the line. Within a string the quotation marks would be escaped.
    fn insert_first_text(&mut self, text: &str) -> serde_json::Result<()> {
        const EMPTY: &[u8] = br#""text":"""#;
        let mut members = self.bytes.windows(EMPTY.len());
        let Some(at) = members.position(|bytes| bytes == EMPTY) else {
            return Err(ser::Error::custom("the text of an answer has no place"));
        };
        let end = at + EMPTY.len();
        let rest = self.bytes.split_off(end);
        self.bytes.truncate(end - b"\"\"".len());
        push_json_string(&mut self.bytes, text);
        self.write_all(&rest).map_err(serde_json::Error::io)
    }
}

/// Takes the first text out of the answer to a call. It may have a mebibyte, which serde_json
/// escapes byte by byte: that is half of what a call over stdio takes.
fn take_first_text(message: &mut ServerJsonRpcMessage) -> Option<String> {
    if let JsonRpcMessage::Response(response) = message
        && let ServerResult::CallToolResult(result) = &mut response.result
        && let Some(ContentBlock::Text(block)) = result.content.first_mut()
    {
        return Some(mem::take(&mut block.text));
    }
    None
}

impl io::Write for Line {
    /// Fails if there is no room for the bytes and the line's end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() >= self.most.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the message in place of one that has more bytes. For a call of a tool, a model
/// reads it.
fn too_large(message: ServerJsonRpcMessage, most: usize) -> ServerJsonRpcMessage {
    let why = format!(
        "the answer is larger than the {most} bytes of a message: ask for less, such as a part \
         of a file with `offset` and `limit` of `read_skill_file`"
    );
    tracing::warn!("an answer was replaced by an error: it is larger than `[stdio]` allows");
    let id = match message {
        JsonRpcMessage::Response(mut response) => {
            if let ServerResult::CallToolResult(result) = &mut response.result {
                result.content = vec![ContentBlock::text(format!("ERROR: {why}"))];
                result.structured_content = None;
                result.is_error = Some(true);
                return JsonRpcMessage::Response(response);
            }
            Some(response.id)
        }
        JsonRpcMessage::Error(error) => error.id,
        _ => None,
    };
    JsonRpcMessage::error(ErrorData::internal_error(why, None), id)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::{PipeReader, Read as _, pipe};
    use std::thread;

    use rmcp::model::{CallToolResult, RequestId};
    use serde_json::{Value, json};

    use super::*;

    const MOST: usize = 2 << 20;

    fn message(text: &str) -> ServerJsonRpcMessage {
        let error = ErrorData::internal_error(text.to_owned(), None);
        JsonRpcMessage::error(error, None)
    }

    fn texts(mut reader: PipeReader) -> Vec<String> {
        let mut lines = String::new();
        reader.read_to_string(&mut lines).unwrap();
        let text = |line| {
            let message: Value = serde_json::from_str(line).unwrap();
            message["error"]["message"].as_str().unwrap().to_owned()
        };
        lines.lines().map(text).collect()
    }

    #[tokio::test]
    async fn writes_all_messages_in_order_before_it_ends() {
        let (reader, output) = pipe().unwrap();
        let output = OutputStream::new(output).unwrap();
        let writer = MessageWriter::new(output, MOST, CancellationToken::new());
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

    #[test]
    fn bounds_a_line_with_its_end() {
        let mut line = Line {
            bytes: Vec::new(),
            most: MOST,
        };
        line.set(message("")).unwrap();
        let room = MOST - line.bytes.len();
        for (text, fits) in [
            ("x".repeat(room), true),
            ("x".repeat(room + 1), false),
            ("\n".repeat(MOST / 2), false),
        ] {
            line.set(message(&text)).unwrap();
            let written = line.bytes.strip_suffix(b"\n").unwrap();
            let written: Value = serde_json::from_slice(written).unwrap();
            assert_eq!(written["error"]["message"] == *text, fits);
            assert_eq!(line.bytes.len() == MOST, fits);
        }
    }

    fn answer(text: &str) -> ServerJsonRpcMessage {
        let content = vec![ContentBlock::text(text), ContentBlock::text("")];
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(json!({"text": ""}));
        let id = RequestId::String(r#""text":"""#.into());
        ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), id)
    }

    #[test]
    fn an_answer_is_written_as_serde_json_does() {
        for text in [
            "",
            "short",
            r#""text":"""#,
            &"a \"line\"\n\u{1}".repeat(9000),
        ] {
            let mut line = Line {
                bytes: Vec::new(),
                most: MOST,
            };
            line.set(answer(text)).unwrap();
            let written = line.bytes.strip_suffix(b"\n").unwrap();
            assert!(written == serde_json::to_vec(&answer(text)).unwrap());
        }
    }

    #[test]
    fn bounds_an_answer_with_what_follows_its_text() {
        let mut line = Line {
            bytes: Vec::new(),
            most: MOST,
        };
        line.set(answer("")).unwrap();
        let room = MOST - line.bytes.len();
        for (length, fits) in [
            (room, true),
            (room + 1, false),
            (room + 30, false),
            (MOST + 1, false),
        ] {
            line.set(answer(&"x".repeat(length))).unwrap();
            assert_eq!(line.bytes.len() == MOST, fits);
            let written: Value = serde_json::from_slice(&line.bytes).unwrap();
            assert_eq!(written["result"]["isError"] == true, !fits);
        }
    }

    #[tokio::test]
    async fn writes_a_message_whole_even_if_its_sender_stops_waiting() {
        let (reader, output) = pipe().unwrap();
        let output = OutputStream::new(output).unwrap();
        let writer = MessageWriter::new(output, MOST, CancellationToken::new());
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
            let writer = MessageWriter::new(output, MOST, CancellationToken::new());
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
            let writer = MessageWriter::new(OutputStream::new(output).unwrap(), MOST, gone.clone());
            assert!(writer.write(message(text), None).await.is_err());
            assert!(gone.is_cancelled());
            assert!(writer.write(message("also lost"), None).await.is_err());
        }
    }
}
