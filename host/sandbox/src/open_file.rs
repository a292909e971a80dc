//! Open files on the disk, read at any position.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

use bytes::Bytes;
use rustix::io::{pread, retry_on_intr};

use skillhost_skills::descriptors::DescriptorLease;
use skillhost_skills::guard::FileStatus;

/// A file that stays open as long as a handle or a stream uses it.
pub(crate) struct OpenFile {
    file: File,
    /// The pinned bytes, which replace the file's contents.
    pinned: OnceLock<Bytes>,
    _lease: DescriptorLease,
}

impl OpenFile {
    /// Creates an open file that holds the lease of its descriptor.
    pub(crate) fn new(file: File, lease: DescriptorLease) -> Self {
        Self {
            file,
            pinned: OnceLock::new(),
            _lease: lease,
        }
    }

    /// Returns the file on the disk.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Makes every later read return these bytes, regardless of the disk. Has no effect if
    /// bytes are already pinned.
    pub(crate) fn pin(&self, bytes: Bytes) {
        let _ = self.pinned.set(bytes);
    }

    /// Returns the current status.
    pub(crate) fn status(&self) -> io::Result<FileStatus> {
        let mut status = FileStatus::of(&self.file)?;
        if let Some(bytes) = self.pinned.get() {
            status.size = bytes.len() as u64;
        }
        Ok(status)
    }

    /// Reads up to `length` bytes. Also returns whether the file ended.
    pub(crate) fn read_at(&self, length: u64, offset: u64) -> io::Result<(Vec<u8>, bool)> {
        if length == 0 {
            return Ok((Vec::new(), false));
        }
        if let Some(bytes) = self.pinned.get() {
            return Ok(read_part(bytes, length, offset));
        }
        // The buffer has the size of the rest of the file, so that one system call usually fills it.
        // It has one byte more, which stays empty if the file has ended.
        let rest = self
            .file
            .metadata()?
            .len()
            .saturating_sub(offset)
            .saturating_add(1);
        let wanted = usize::try_from(rest.min(length)).map_err(io::Error::other)?;
        let mut bytes = vec![0; wanted];
        let mut filled = 0;
        while filled != wanted {
            let at = offset + filled as u64;
            match retry_on_intr(|| pread(&self.file, &mut bytes[filled..], at))? {
                0 => break,
                more => filled += more,
            }
        }
        bytes.truncate(filled);
        Ok((bytes, filled < wanted))
    }

    /// Reads up to `length` bytes with one system call. Returns no bytes at the end of the
    /// file.
    pub(crate) fn read_some(&self, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        if let Some(bytes) = self.pinned.get() {
            return Ok(read_part(bytes, length as u64, offset).0);
        }
        let mut bytes = vec![0; length];
        let read = self.file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// Returns up to `length` bytes of a file in memory, and whether the file ended.
pub(crate) fn read_part(all: &[u8], length: u64, offset: u64) -> (Vec<u8>, bool) {
    let start = usize::try_from(offset).map_or(all.len(), |at| at.min(all.len()));
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let end = start.saturating_add(length).min(all.len());
    (all[start..end].to_vec(), end - start < length)
}
