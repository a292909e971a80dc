//! A stream that reads a file of a guest.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, StreamError, StreamResult};

use crate::open_file::OpenFile;

/// The maximum bytes of one read of a stream.
const CHUNK: usize = 64 << 10;

/// A stream that reads a file from a position. Regular files never block, so it reads
/// directly.
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
        let bytes = self
            .open
            .read_some(size.min(CHUNK), self.position)
            .map_err(|error| StreamError::LastOperationFailed(error.into()))?;
        if bytes.is_empty() {
            self.ended = true;
            return Err(StreamError::Closed);
        }
        self.position += bytes.len() as u64;
        Ok(bytes.into())
    }
}
