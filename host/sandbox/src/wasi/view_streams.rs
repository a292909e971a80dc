//! Streams of files in a copy-on-write view. They never block.

use bytes::Bytes;
use rustix::io::Errno;
use wasmtime_wasi::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, OutputStream, StreamError, StreamResult};

use crate::view::FileHandle;

/// The maximum bytes of one read or write of a stream.
const CHUNK: usize = 64 << 10;

/// A stream that reads from a position.
pub(super) struct ViewInput {
    file: FileHandle,
    position: u64,
}

/// A stream that writes.
pub(super) struct ViewOutput {
    file: FileHandle,
    position: WritePosition,
}

/// The position of a write.
#[derive(Clone, Copy)]
pub(super) enum WritePosition {
    At(u64),
    /// At the file's end at that time.
    End,
}

impl ViewInput {
    pub(super) fn new(file: FileHandle, position: u64) -> Self {
        Self { file, position }
    }
}

impl ViewOutput {
    pub(super) fn new(file: FileHandle, position: WritePosition) -> Self {
        Self { file, position }
    }
}

#[async_trait]
impl Pollable for ViewInput {
    async fn ready(&mut self) {}
}

impl InputStream for ViewInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let length = size.min(CHUNK) as u64;
        let (bytes, _) = self.file.read_at(length, self.position).map_err(failed)?;
        if bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        self.position += bytes.len() as u64;
        Ok(bytes.into())
    }
}

#[async_trait]
impl Pollable for ViewOutput {
    async fn ready(&mut self) {}
}

impl OutputStream for ViewOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        match &mut self.position {
            WritePosition::End => self.file.append(&bytes).map_err(failed),
            WritePosition::At(position) => {
                self.file.write_at(&bytes, *position).map_err(failed)?;
                *position += bytes.len() as u64;
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

/// Returns the error of a stream. The guest can query its code.
fn failed(error: Errno) -> StreamError {
    StreamError::LastOperationFailed(std::io::Error::from(error).into())
}
