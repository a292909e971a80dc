//! Streams that read or write a file of a guest. Files never block, so the streams read and
//! write directly.

use std::io;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, OutputStream, StreamError, StreamResult};

use super::handles::GuestFile;
use crate::view::FileHandle;

/// The maximum size of one read or write of a stream, in bytes.
const CHUNK: usize = 64 << 10;

/// A stream that reads a file from a position.
pub(super) struct FileInput {
    file: GuestFile,
    position: u64,
}

/// A stream that writes a file of a view.
pub(super) struct FileOutput {
    file: FileHandle,
    position: WritePosition,
}

/// The position of a write.
#[derive(Clone, Copy)]
pub(super) enum WritePosition {
    At(u64),
    /// At the end that the file has when the guest writes.
    End,
}

impl FileInput {
    pub(super) fn new(file: GuestFile, position: u64) -> Self {
        Self { file, position }
    }
}

impl FileOutput {
    pub(super) fn new(file: FileHandle, position: WritePosition) -> Self {
        Self { file, position }
    }
}

#[async_trait]
impl Pollable for FileInput {
    async fn ready(&mut self) {}
}

impl InputStream for FileInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let read = self.file.read_some(size.min(CHUNK), self.position);
        let bytes = read.map_err(stream_error)?;
        if bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        self.position += bytes.len() as u64;
        Ok(bytes.into())
    }
}

#[async_trait]
impl Pollable for FileOutput {
    async fn ready(&mut self) {}
}

impl OutputStream for FileOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        match &mut self.position {
            WritePosition::End => self.file.append(&bytes).map_err(stream_error),
            WritePosition::At(position) => {
                self.file
                    .write_at(&bytes, *position)
                    .map_err(stream_error)?;
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

/// Converts an error to a stream's error. The guest can query its code.
fn stream_error(error: impl Into<io::Error>) -> StreamError {
    StreamError::LastOperationFailed(error.into().into())
}
