//! What a guest writes to its standard output and error: bounded, line by
//! line, escaped, into the operator's log. The process's own streams may carry
//! a protocol and are never touched.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamResult};

use crate::text::line::Line;

/// Bytes that a guest may write at once.
const PERMIT: usize = 64 << 10;

/// Longest line that is logged in one piece.
const LINE: usize = 1000;

/// The log of one call. Clones write to the same.
#[derive(Clone)]
pub(super) struct Log(Arc<Mutex<Written>>);

struct Written {
    /// Who writes, for the log.
    tool: Arc<str>,
    line: Vec<u8>,
    /// Bytes that may still be logged. What comes after is counted only.
    left: usize,
    dropped: usize,
}

impl Log {
    /// A log of at most so many bytes.
    pub(super) fn new(tool: Arc<str>, limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Written {
            tool,
            line: Vec::new(),
            left: limit,
            dropped: 0,
        })))
    }

    fn write(&self, bytes: &[u8]) {
        // A panic elsewhere leaves nothing here half done.
        let mut written = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        written.take(bytes);
    }
}

impl Written {
    fn take(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(self.left);
        self.left -= kept;
        self.dropped += bytes.len() - kept;
        for piece in bytes[..kept].split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= LINE {
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

impl Drop for Written {
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

impl IsTerminal for Log {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Log {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Log {
    async fn ready(&mut self) {}
}

impl OutputStream for Log {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        Log::write(self, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

impl AsyncWrite for Log {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Log::write(&self, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_limit_is_counted_and_not_kept() {
        let log = Log::new("t".into(), 10);
        log.write(b"12345\n12");
        log.write(&[b'x'; 1000]);
        let written = log.0.lock().unwrap();
        assert_eq!((written.left, written.dropped), (0, 998));
        assert_eq!(written.line, b"12xx");
    }
}
