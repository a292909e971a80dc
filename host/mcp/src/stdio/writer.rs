//! Writes complete messages, one after the other.

use std::io::{self, Write as _};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{ContentBlock, ErrorData, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use serde::ser;
use skillhost_skills::text::json_string;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::in_flight::RequestSlot;
use super::stream::OutputStream;

/// The capacity that the buffer keeps between messages. Allocating it again for a large
/// message would take as long as filling it.
const BUFFER_BYTES: usize = 4 << 20;

/// The longest time for writing one message while the server shuts down. Guards
/// against: a client that has stopped reading and keeps its end open.
const MAX_WRITE_TIME: Duration = Duration::from_secs(10);

/// The writer of all messages to a client. Clones write to the same stream.
#[derive(Clone)]
pub(crate) struct MessageWriter {
    state: Arc<Mutex<WriterState>>,
    /// The number of times that a write has begun or ended: odd during a write.
    write_changes: Arc<AtomicUsize>,
    /// Cancelled when the client can no longer be answered.
    client_gone: CancellationToken,
}

struct WriterState {
    output: OutputStream,
    line: OutputLine,
}

/// The buffer for the line of a message.
struct OutputLine {
    bytes: Vec<u8>,
    /// The maximum number of bytes that a line may have, with its line feed.
    max_bytes: usize,
}

impl MessageWriter {
    /// Returns a writer of messages with at most `max_bytes` each. Cancels `client_gone`
    /// when writing fails.
    pub(crate) fn new(
        output: OutputStream,
        max_bytes: usize,
        client_gone: CancellationToken,
    ) -> Self {
        let line = OutputLine::new(max_bytes);
        Self {
            state: Arc::new(Mutex::new(WriterState { output, line })),
            write_changes: Arc::default(),
            client_gone,
        }
    }

    /// Writes a message after all earlier ones, or an error in place of a message that is
    /// too large. Then drops the slot of the answered request.
    ///
    /// Writes on a thread for blocking work if the write might wait for the client. If the future
    /// is dropped, the message is written completely or not at all.
    pub(crate) fn write(
        &self,
        message: ServerJsonRpcMessage,
        answered: Option<RequestSlot>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let Self {
            state,
            write_changes,
            client_gone,
        } = self.clone();
        async move {
            let mut state = state.lock_owned().await;
            if client_gone.is_cancelled() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let WriterState { output, line } = &mut *state;
            line.set(message)?;
            let can_write_without_blocking = output.can_write_without_blocking(line.bytes.len());
            let write = move || {
                let WriterState { output, line } = &mut *state;
                write_changes.fetch_add(1, Ordering::Relaxed);
                let result = output.write(&line.bytes);
                write_changes.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = &result {
                    tracing::warn!("cannot write to the client: {error}; its calls are stopped");
                    client_gone.cancel();
                }
                drop(answered);
                result
            };
            if can_write_without_blocking {
                write()
            } else {
                spawn_blocking(write).await?
            }
        }
    }

    /// Waits until all messages so far are written.
    pub(crate) async fn finish(&self) {
        drop(self.state.lock().await);
    }

    /// Waits until writing one message takes longer than [`MAX_WRITE_TIME`].
    pub(crate) async fn stalled(&self) {
        self.stalled_with(sleep).await;
    }

    /// Implements [`stalled`](Self::stalled) with a sleep that tests can replace.
    async fn stalled_with<W: Future<Output = ()>>(&self, sleep: impl Fn(Duration) -> W) {
        const CHECKS: u32 = 10;
        let (mut unchanged, mut last) = (0, 0);
        while unchanged < CHECKS {
            sleep(MAX_WRITE_TIME / CHECKS).await;
            let changes = self.write_changes.load(Ordering::Relaxed);
            let is_same_write = changes % 2 == 1 && changes == last;
            unchanged = if is_same_write { unchanged + 1 } else { 0 };
            last = changes;
        }
    }
}

impl OutputLine {
    fn new(max_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            max_bytes,
        }
    }

    /// Serializes a message, or an error in place of a message that is too large.
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
            // Only a line that is too long is an I/O error.
            Err(error) if error.is_io() => {
                self.bytes.clear();
                let error = too_large(message, self.max_bytes);
                serde_json::to_writer(&mut *self, &error)?;
            }
            written => written?,
        }
        self.bytes.push(b'\n');
        Ok(())
    }

    /// Inserts the text that [`take_first_text`] removed into the first empty member `text` of
    /// the line. No string before this member can look like it, because quotation marks in
    /// strings are escaped.
    fn insert_first_text(&mut self, text: &str) -> serde_json::Result<()> {
        const EMPTY: &[u8] = br#""text":"""#;
        let mut members = self.bytes.windows(EMPTY.len());
        let Some(start) = members.position(|bytes| bytes == EMPTY) else {
            return Err(ser::Error::custom(
                "the serialized answer has no empty `text`",
            ));
        };
        let end = start + EMPTY.len();
        let rest = self.bytes.split_off(end);
        self.bytes.truncate(end - b"\"\"".len());
        json_string::push(&mut self.bytes, text);
        self.write_all(&rest).map_err(serde_json::Error::io)
    }
}

/// Takes the first text out of a call's answer, so that [`json_string`] can escape it.
/// serde_json escapes byte by byte. For 1 MiB, that takes half the time of a call over stdio.
fn take_first_text(message: &mut ServerJsonRpcMessage) -> Option<String> {
    if let JsonRpcMessage::Response(response) = message
        && let ServerResult::CallToolResult(result) = &mut response.result
        && let Some(ContentBlock::Text(block)) = result.content.first_mut()
    {
        return Some(mem::take(&mut block.text));
    }
    None
}

impl io::Write for OutputLine {
    /// Fails if the bytes and the line feed exceed the limit.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() >= self.max_bytes.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the error to send in place of a message with more than `max_bytes`. If the
/// message is the result of a tool, a model reads the error.
fn too_large(message: ServerJsonRpcMessage, max_bytes: usize) -> ServerJsonRpcMessage {
    let why = format!(
        "the answer is larger than the {max_bytes} bytes that a message may have: ask for less, \
         such as a part of a file with `offset` and `limit` of `read_skill_file`"
    );
    tracing::warn!("replaced an answer with an error: it is larger than `[stdio]` allows");
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

    const MAX_BYTES: usize = 2 << 20;

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
    async fn finish_waits_for_all_messages_in_order() {
        let (reader, output) = pipe().unwrap();
        let output = OutputStream::new(output).unwrap();
        let writer = MessageWriter::new(output, MAX_BYTES, CancellationToken::new());
        let large = "x".repeat(1 << 20);
        let texts_written = ["first", &large, "last"];
        let mut writing = tokio::task::JoinSet::new();
        for text in texts_written {
            writing.spawn(writer.write(message(text), None));
            tokio::task::yield_now().await;
        }
        // Only the first fits into the pipe.
        writing.join_next().await.unwrap().unwrap().unwrap();
        assert!(writing.try_join_next().is_none());
        let read = thread::spawn(move || texts(reader));
        writer.finish().await;
        drop((writer, writing.join_all().await));
        assert_eq!(read.join().unwrap(), texts_written);
    }

    #[test]
    fn limit_includes_line_feed() {
        let mut line = OutputLine::new(MAX_BYTES);
        line.set(message("")).unwrap();
        let remaining = MAX_BYTES - line.bytes.len();
        for (text, fits) in [
            ("x".repeat(remaining), true),
            ("x".repeat(remaining + 1), false),
            ("\n".repeat(MAX_BYTES / 2), false),
        ] {
            line.set(message(&text)).unwrap();
            let written = line.bytes.strip_suffix(b"\n").unwrap();
            let written: Value = serde_json::from_slice(written).unwrap();
            assert_eq!(written["error"]["message"] == *text, fits);
            assert_eq!(line.bytes.len() == MAX_BYTES, fits);
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
    fn writes_answers_as_serde_json_does() {
        for text in [
            "",
            "short",
            r#""text":"""#,
            &"a \"line\"\n\u{1}".repeat(9000),
        ] {
            let mut line = OutputLine::new(MAX_BYTES);
            line.set(answer(text)).unwrap();
            let written = line.bytes.strip_suffix(b"\n").unwrap();
            assert!(written == serde_json::to_vec(&answer(text)).unwrap());
        }
    }

    #[test]
    fn limit_includes_inserted_text() {
        let mut line = OutputLine::new(MAX_BYTES);
        line.set(answer("")).unwrap();
        let remaining = MAX_BYTES - line.bytes.len();
        for (length, fits) in [
            (remaining, true),
            (remaining + 1, false),
            (remaining + 30, false),
            (MAX_BYTES + 1, false),
        ] {
            line.set(answer(&"x".repeat(length))).unwrap();
            assert_eq!(line.bytes.len() == MAX_BYTES, fits);
            let written: Value = serde_json::from_slice(&line.bytes).unwrap();
            assert_eq!(written["result"]["isError"] == true, !fits);
        }
    }

    #[tokio::test]
    async fn dropped_write_leaves_message_whole() {
        let (reader, output) = pipe().unwrap();
        let output = OutputStream::new(output).unwrap();
        let writer = MessageWriter::new(output, MAX_BYTES, CancellationToken::new());
        let large = "x".repeat(1 << 20);
        let dropped = tokio::spawn(writer.write(message(&large), None));
        while writer.write_changes.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        dropped.abort();
        let read = thread::spawn(move || texts(reader));
        writer.finish().await;
        drop(writer);
        assert_eq!(read.join().unwrap(), [large]);
    }

    #[tokio::test]
    async fn write_stalls_after_ten_seconds() {
        for earlier in [0, 1, 60].map(Duration::from_secs) {
            let (_reader, output) = pipe().unwrap();
            let output = OutputStream::new(output).unwrap();
            let writer = MessageWriter::new(output, MAX_BYTES, CancellationToken::new());
            writer.write_changes.fetch_add(1, Ordering::Relaxed);
            let waited = Cell::new(Duration::ZERO);
            let wait = |pause| {
                if waited.get() < earlier {
                    // One message ends, and the next one begins.
                    writer.write_changes.fetch_add(2, Ordering::Relaxed);
                }
                waited.set(waited.get() + pause);
                std::future::ready(())
            };
            writer.stalled_with(wait).await;
            // A check may come late.
            let waited = waited.get() - earlier;
            let expected = Duration::from_secs(10)..=Duration::from_secs(12);
            assert!(expected.contains(&waited), "{waited:?} after {earlier:?}");
        }
    }

    #[tokio::test]
    async fn failed_write_stops_calls() {
        for text in ["lost", &"x".repeat(1 << 20)] {
            let (reader, output) = pipe().unwrap();
            drop(reader);
            let gone = CancellationToken::new();
            let writer =
                MessageWriter::new(OutputStream::new(output).unwrap(), MAX_BYTES, gone.clone());
            assert!(writer.write(message(text), None).await.is_err());
            assert!(gone.is_cancelled());
            assert!(writer.write(message("also lost"), None).await.is_err());
        }
    }
}
