//! A file that a guest has opened, read by position or as a stream.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, StreamError, StreamResult};

use crate::skill::descriptors::DescriptorPermit;

/// The most bytes that one read of a stream returns.
const CHUNK: usize = 64 << 10;

/// A file that stays open while a handle or a stream needs it.
pub(super) struct OpenFile {
    pub(super) file: File,
    _permit: DescriptorPermit,
}

impl OpenFile {
    pub(super) fn new(file: File, permit: DescriptorPermit) -> Self {
        Self {
            file,
            _permit: permit,
        }
    }

    /// Reads up to `length` bytes. Also returns whether the file ended. The buffer
    /// has the size of the file, so that one system call reads an ordinary file.
    pub(super) fn read_at(&self, length: u64, offset: u64) -> io::Result<(Vec<u8>, bool)> {
        if length == 0 {
            return Ok((Vec::new(), false));
        }
        // A read that leaves the last byte of the buffer empty shows the end.
        let rest = self
            .file
            .metadata()?
            .len()
            .saturating_sub(offset)
            .saturating_add(1);
        let wanted = usize::try_from(rest.min(length)).map_err(io::Error::other)?;
        let mut bytes = vec![0; wanted];
        let mut filled = 0;
        while filled < wanted {
            match self
                .file
                .read_at(&mut bytes[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok((bytes, filled < wanted))
    }
}

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
