//! One file, as it is: UTF-8 as text with every byte in its place, a byte order
//! mark too, and anything else in base64.

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

/// Bytes of one read. The file's bytes are in memory once, besides this.
const CHUNK: u64 = 1 << 20;

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

/// Reads a file of at most so many bytes.
pub(crate) fn read(file: &File, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let size = file.size()?;
    if size > max_bytes {
        return Err(ReadError::TooLarge(max_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    chunks(file, |chunk| {
        bytes.extend_from_slice(chunk);
        if bytes.len() as u64 > max_bytes {
            return Err(ReadError::TooLarge(max_bytes));
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// Hands over a file piece by piece.
pub(crate) fn chunks(
    file: &File,
    mut take: impl FnMut(&[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut at = 0;
    loop {
        let (chunk, end) = file.read_at(at, CHUNK)?;
        at += chunk.len() as u64;
        take(&chunk)?;
        if end || chunk.is_empty() {
            return Ok(());
        }
    }
}
