//! `skillhost:tool/answer`: a file of the call's folder as the text of its
//! output. The guest says which; the text stays with the host.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use wasmtime::component::{ComponentType, Lower};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode as Code;

use super::World;
use super::filesystem::{checked, code};
use crate::skill::guard::PathTarget;

/// Why a file cannot be the text, as `wit/` has it.
#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum Unusable {
    #[component(name = "not-found")]
    NotFound,
    #[component(name = "outside")]
    Outside,
    #[component(name = "is-directory")]
    IsDirectory,
    #[component(name = "not-regular")]
    NotRegular,
    #[component(name = "hard-linked")]
    HardLinked,
    #[component(name = "other-mount")]
    OtherMount,
    #[component(name = "permission-denied")]
    PermissionDenied,
    #[component(name = "symlink-loop")]
    SymlinkLoop,
    #[component(name = "name-too-long")]
    NameTooLong,
    #[component(name = "too-large")]
    TooLarge,
    #[component(name = "not-utf8")]
    NotUtf8,
    #[component(name = "unreadable")]
    Unreadable,
}

const BYTE_ORDER_MARK: &str = "\u{feff}";

impl World {
    /// Holds a file's text for the answer, and tells the file's size.
    pub(crate) fn text_from_file(&mut self, path: &str, limit: u64) -> Result<u64, Unusable> {
        self.text = None;
        let most = limit.min(self.most_text as u64);
        let (text, size) = self.read_text(path, most)?;
        self.text = Some(text);
        Ok(size)
    }

    /// The text that the guest has left to the host, if any.
    pub(crate) fn take_text(&mut self) -> Option<String> {
        self.text.take()
    }

    fn read_text(&mut self, path: &str, most: u64) -> Result<(String, u64), Unusable> {
        let path = checked(path)?;
        let (folder, _) = self.preopen.as_ref().ok_or(Unusable::NotFound)?;
        let target = folder.lookup(path, true).map_err(code)?;
        let PathTarget::File(file) = target else {
            return Err(Unusable::IsDirectory);
        };
        let seen_size = file.size;
        if seen_size > most {
            return Err(Unusable::TooLarge);
        }
        let _permit = self.permit()?;
        let file = file.open().map_err(code)?;
        let bytes = read(file, seen_size, most).map_err(code)?;
        let size = bytes.len() as u64;
        if size > most {
            return Err(Unusable::TooLarge);
        }
        let mut text = String::from_utf8(bytes).map_err(|_| Unusable::NotUtf8)?;
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        Ok((text, size))
    }
}

/// What is in a file that had so many bytes when it was looked at, or one byte
/// more than the most.
fn read(file: File, size: u64, most: u64) -> io::Result<Vec<u8>> {
    // Room for one byte more shows whether it has grown since.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
    retry_on_intr(|| rustix::io::read(&file, spare_capacity(&mut bytes)))?;
    let read = bytes.len() as u64;
    if read != size {
        let rest = most.saturating_add(1).saturating_sub(read);
        file.take(rest).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

impl From<Code> for Unusable {
    fn from(code: Code) -> Self {
        match code {
            // A path through a file names nothing.
            Code::NoEntry | Code::NotDirectory => Self::NotFound,
            Code::NotPermitted => Self::Outside,
            Code::IsDirectory => Self::IsDirectory,
            Code::Unsupported => Self::NotRegular,
            Code::TooManyLinks => Self::HardLinked,
            Code::CrossDevice => Self::OtherMount,
            Code::Access => Self::PermissionDenied,
            Code::Loop => Self::SymlinkLoop,
            Code::NameTooLong => Self::NameTooLong,
            _ => Self::Unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_file_that_changed_since_it_was_looked_at_is_read_as_it_is() {
        const MOST: u64 = 100_000;
        for (seen, now, read_of_it) in [
            (0, 0, 0),
            (5, 5, 5),
            (5, 0, 0),
            (5, 3, 3),
            (5, 6, 6),
            (0, 70_000, 70_000),
            (5, MOST, MOST),
            (MOST, MOST, MOST),
            // So much is refused: it need not be read to its end.
            (5, MOST + 1, MOST + 1),
            (5, 3 * MOST, MOST + 1),
            (MOST, 3 * MOST, MOST + 1),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![b'x'; now as usize]).unwrap();
            file.rewind().unwrap();
            let bytes = read(file, seen, MOST).unwrap();
            assert_eq!(bytes.len() as u64, read_of_it, "{seen} seen, {now} there");
        }
    }
}
