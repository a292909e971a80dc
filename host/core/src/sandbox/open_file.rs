//! A file of the disk that a guest has opened, read by position.

use std::fs::File;
use std::io;

use rustix::io::{pread, retry_on_intr};

use crate::skill::descriptors::DescriptorPermit;

/// A file that stays open while a handle or a stream needs it.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    _permit: DescriptorPermit,
}

impl OpenFile {
    pub(crate) fn new(file: File, permit: DescriptorPermit) -> Self {
        Self {
            file,
            _permit: permit,
        }
    }

    /// Reads up to `length` bytes. Also returns whether the file ended. The buffer
    /// has the size of the file, so that one system call reads an ordinary file.
    pub(crate) fn read_at(&self, length: u64, offset: u64) -> io::Result<(Vec<u8>, bool)> {
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
}
