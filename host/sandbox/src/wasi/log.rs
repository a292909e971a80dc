//! A guest's standard output and error, which are bounded, escaped and written line by line
//! to the operator's log. They never reach the process's own streams, which may carry a
//! protocol.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamResult};

use skillhost_skills::text::line::Line;

/// The maximum size of one write, in bytes.
const MAX_WRITE: usize = 64 << 10;

/// The size in bytes at which an unfinished line goes to the log.
const MAX_LINE: usize = 1000;

/// The log of one call. Clones write to the same log.
#[derive(Clone)]
pub(super) struct GuestLog(Arc<Mutex<LogBuffer>>);

struct LogBuffer {
    /// The name of the tool that writes.
    tool: Arc<str>,
    line: Vec<u8>,
    /// All logged bytes, if the call is traced.
    captured: Option<Vec<u8>>,
    /// The remaining bytes of the log. Further bytes are only counted.
    remaining: usize,
    dropped: usize,
}

impl GuestLog {
    /// Creates a log of at most `limit` bytes. If `captures` is true, also captures the bytes.
    pub(super) fn new(tool: Arc<str>, limit: usize, captures: bool) -> Self {
        Self(Arc::new(Mutex::new(LogBuffer {
            tool,
            line: Vec::new(),
            captured: captures.then(Vec::new),
            remaining: limit,
            dropped: 0,
        })))
    }

    /// Takes the captured output of the guest, if any.
    pub(super) fn take_captured(&self) -> String {
        let mut buffer = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        let captured = buffer.captured.take().unwrap_or_default();
        String::from_utf8_lossy(&captured).into_owned()
    }

    fn write(&self, bytes: &[u8]) {
        // A panic elsewhere cannot leave a partial write here.
        let mut buffer = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        buffer.append(bytes);
    }
}

impl LogBuffer {
    fn append(&mut self, bytes: &[u8]) {
        let logged = bytes.len().min(self.remaining);
        self.remaining -= logged;
        self.dropped += bytes.len() - logged;
        if let Some(all) = &mut self.captured {
            all.extend_from_slice(&bytes[..logged]);
        }
        for piece in bytes[..logged].split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= MAX_LINE {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end_matches(['\n', '\r']);
        tracing::info!(tool = &*self.tool, "guest: {}", Line::new(line));
        self.line.clear();
    }
}

impl Drop for LogBuffer {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.flush();
        }
        if self.dropped > 0 {
            tracing::info!(
                tool = &*self.tool,
                "guest: {} more bytes were not logged",
                self.dropped
            );
        }
    }
}

impl IsTerminal for GuestLog {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestLog {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only used by WASI 0.3, which is not linked.
        Box::new(tokio::io::sink())
    }
}

#[async_trait]
impl Pollable for GuestLog {
    async fn ready(&mut self) {}
}

impl OutputStream for GuestLog {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        GuestLog::write(self, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_drops_bytes_over_the_limit() {
        let log = GuestLog::new("t".into(), 10, true);
        log.write(b"12345\n12");
        log.write(&[b'x'; 1000]);
        assert_eq!(log.take_captured(), "12345\n12xx");
        let buffer = log.0.lock().unwrap();
        assert_eq!((buffer.remaining, buffer.dropped), (0, 998));
        assert_eq!(buffer.line, b"12xx");
    }
}
