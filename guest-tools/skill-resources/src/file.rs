//! Answers with one file, unchanged: UTF-8 as text, with its byte order mark, and all other
//! bytes in base64.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use skillhost_guest::{Failure, File, Folder, Output, ReadError, SkillPath};

use crate::reason;

skillhost_guest::record! {
    struct Encoded {
        encoding: &'static str,
    }
}

/// The maximum number of bytes in one read. Guards against: a second copy of a large file
/// in memory while it is read.
const MAX_CHUNK_BYTES: u64 = 1 << 20;

pub(crate) fn answer(
    folder: &Folder,
    path: &SkillPath<'_>,
    max_bytes: u64,
) -> Result<Output, Failure> {
    let bytes = folder
        .find(path, |path| read(&folder.open(path)?, max_bytes))
        .map_err(reason::failure)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Output::text(text),
        Err(error) => Output::text(BASE64_STANDARD.encode(error.as_bytes()))
            .with(&Encoded { encoding: "base64" }),
    })
}

/// Reads a file of at most `max_bytes` bytes.
pub(crate) fn read(file: &File, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let size = file.size()?;
    if size > max_bytes {
        return Err(ReadError::TooLarge(max_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    for_each_chunk(file, |chunk| {
        bytes.extend_from_slice(chunk);
        if bytes.len() as u64 > max_bytes {
            return Err(ReadError::TooLarge(max_bytes));
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// Reads a file in chunks, and calls `act` with each.
pub(crate) fn for_each_chunk(
    file: &File,
    mut act: impl FnMut(&[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut offset = 0;
    loop {
        let (chunk, is_last) = file.read_at(offset, MAX_CHUNK_BYTES)?;
        offset += chunk.len() as u64;
        act(&chunk)?;
        if is_last || chunk.is_empty() {
            return Ok(());
        }
    }
}
