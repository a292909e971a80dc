//! A stream over a file that a guest has opened.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, StreamError, StreamResult};

use crate::sandbox::open_file::OpenFile;

/// The most bytes that one read of a stream returns.
const CHUNK: usize = 64 << 10;

/// A stream over a file from a position on. Regular files never make a reader
/// wait, so it reads at once.
pub(super) struct FileStream {
    open: Arc<OpenFile>,
    position: u64,
    ended: bool,
}

impl FileStream {
    pub(super) fn new(open: Arc<OpenFile>, position: u64) -> Self {
        Self {
            open,
            position,
            ended: false,
        }
    }
}

#[async_trait]
impl Pollable for FileStream {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for FileStream {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if self.ended {
            return Err(StreamError::Closed);
        }
        if size == 0 {
            return Ok(Bytes::new());
        }
        let mut bytes = vec![0; size.min(CHUNK)];
        let length = self
            .open
            .file
            .read_at(&mut bytes, self.position)
            .map_err(|error| StreamError::LastOperationFailed(error.into()))?;
        if length == 0 {
            self.ended = true;
            return Err(StreamError::Closed);
        }
        self.position += length as u64;
        bytes.truncate(length);
        Ok(bytes.into())
    }
}
