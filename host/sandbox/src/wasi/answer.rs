//! `skillhost:tool/answer`: the guest names a file of the call's folder as the text of its
//! answer, and the text stays in the host.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use wasmtime::component::{ComponentType, Lower};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode as Code;

use super::ImportState;
use super::filesystem::{error_code, valid_path};
use crate::view::View;
use skillhost_skills::guard::PathTarget;

/// The reason why a file cannot be the answer's text, as defined in `wit/`.
#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum UnusableFile {
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

impl ImportState {
    /// Reads a file's text for the answer, and returns the file's size.
    pub(crate) fn text_from_file(&mut self, path: &str, limit: u64) -> Result<u64, UnusableFile> {
        self.text = None;
        let max = limit.min(self.max_text as u64);
        let (text, size) = self.read_text(path, max)?;
        self.text = Some(text);
        Ok(size)
    }

    /// Takes the text of the file that the guest named, if any.
    pub(crate) fn take_text(&mut self) -> Option<String> {
        self.text.take()
    }

    fn read_text(&mut self, path: &str, max: u64) -> Result<(String, u64), UnusableFile> {
        let bytes = match self.view.clone() {
            Some(view) => self.read_from_view(&view, path, max)?,
            None => self.read_from_disk(path, max)?,
        };
        let size = bytes.len() as u64;
        if size > max {
            return Err(UnusableFile::TooLarge);
        }
        let mut text = String::from_utf8(bytes).map_err(|_| UnusableFile::NotUtf8)?;
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        Ok((text, size))
    }

    /// Reads a file on the disk. Fails if it has more than `max` bytes.
    pub(super) fn read_from_disk(&mut self, path: &str, max: u64) -> Result<Vec<u8>, Code> {
        let path = valid_path(path)?;
        let (folder, _) = self.preopen.as_ref().ok_or(Code::NoEntry)?;
        let found = folder.lookup(path, true).map_err(error_code)?;
        let PathTarget::File(seen) = found else {
            return Err(Code::IsDirectory);
        };
        let seen_size = seen.size;
        if seen_size > max {
            return Err(Code::FileTooLarge);
        }
        let _lease = self.lease_descriptor()?;
        let file = seen.open().map_err(error_code)?;
        let bytes = read(file, seen_size, max).map_err(error_code)?;
        if bytes.len() as u64 > max {
            return Err(Code::FileTooLarge);
        }
        Ok(bytes)
    }

    /// Reads at most `max + 1` bytes of a file in the call's view.
    fn read_from_view(
        &mut self,
        view: &View,
        path: &str,
        max: u64,
    ) -> Result<Vec<u8>, UnusableFile> {
        valid_path(path)?;
        let read = view.open_file_to_read(path).and_then(|file| {
            // A file on the disk may grow between the two calls.
            let size = file.status()?.size.min(max);
            file.read_at(size.saturating_add(1), 0)
        });
        match read {
            Ok((bytes, _)) => Ok(bytes),
            Err(error) => Err(self.code_or_stop(error).into()),
        }
    }
}

/// Reads at most `max + 1` bytes of a file that had `size` bytes when it was found.
fn read(file: File, size: u64, max: u64) -> io::Result<Vec<u8>> {
    // One more byte shows whether the file has grown.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
    retry_on_intr(|| rustix::io::read(&file, spare_capacity(&mut bytes)))?;
    let read = bytes.len() as u64;
    if read != size {
        let rest = max.saturating_add(1).saturating_sub(read);
        file.take(rest).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Implements the conversion of an error code to an enum of reasons from `wit/`.
macro_rules! reason_of_code {
    ($reason:ident, directory: $directory:ident, not_regular: $not_regular:ident) => {
        impl From<Code> for $reason {
            fn from(code: Code) -> Self {
                match code {
                    // A path through a file does not exist.
                    Code::NoEntry | Code::NotDirectory => Self::NotFound,
                    Code::NotPermitted => Self::Outside,
                    Code::IsDirectory => Self::$directory,
                    Code::Unsupported => Self::$not_regular,
                    Code::TooManyLinks => Self::HardLinked,
                    Code::CrossDevice => Self::OtherMount,
                    Code::Access => Self::PermissionDenied,
                    Code::Loop => Self::SymlinkLoop,
                    Code::NameTooLong => Self::NameTooLong,
                    Code::FileTooLarge => Self::TooLarge,
                    _ => Self::Unreadable,
                }
            }
        }
    };
}
pub(super) use reason_of_code;

reason_of_code!(UnusableFile, directory: IsDirectory, not_regular: NotRegular);

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::super::fixture;
    use super::*;
    use crate::tool::limits::Limits;

    #[test]
    fn reads_current_bytes_of_changed_file() {
        const MAX: u64 = 100_000;
        for (seen, now, expected) in [
            (0, 0, 0),
            (5, 5, 5),
            (5, 0, 0),
            (5, 3, 3),
            (5, 6, 6),
            (0, 70_000, 70_000),
            (5, MAX, MAX),
            (MAX, MAX, MAX),
            // A refused file need not be read to its end.
            (5, MAX + 1, MAX + 1),
            (5, 3 * MAX, MAX + 1),
            (MAX, 3 * MAX, MAX + 1),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![b'x'; now as usize]).unwrap();
            file.rewind().unwrap();
            let bytes = read(file, seen, MAX).unwrap();
            assert_eq!(bytes.len() as u64, expected, "{seen} bytes, then {now}");
        }
    }

    #[test]
    fn answer_limit_applies_to_disk_and_view_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("fits"), "12345").unwrap();
        std::fs::write(folder.path().join("large"), "123456").unwrap();
        std::fs::write(folder.path().join("small"), "123").unwrap();
        let limits = Limits {
            output: 5,
            ..Limits::default()
        };
        let mut imports = fixture::imports(Some(folder.path()), &[], &limits);
        for _ in 0..2 {
            for (path, size, text) in [("fits", 5, "12345"), ("small", 3, "123")] {
                let read = imports.text_from_file(path, 9);
                assert!(matches!(read, Ok(read) if read == size), "{path}");
                assert_eq!(imports.take_text().as_deref(), Some(text));
            }
            for (path, limit) in [("large", 9), ("fits", 4)] {
                // The text of an earlier file must not become the answer.
                assert!(imports.text_from_file("small", 9).is_ok());
                let refused = imports.text_from_file(path, limit);
                assert!(matches!(refused, Err(UnusableFile::TooLarge)), "{path}");
                assert_eq!(imports.take_text(), None);
            }
            fixture::make_view(&mut imports, &limits);
        }
    }
}
