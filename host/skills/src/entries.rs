//! Reading the entries of a folder one by one through its handle. The guard decides whether
//! an entry may be opened.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::broker;

/// A listing in progress.
#[derive(Debug)]
pub struct EntryCursor(Dir);

/// An entry of a folder.
#[derive(Debug)]
pub struct ListedEntry {
    /// The name in the file system's encoding.
    pub name: OsString,
    /// The type. Symlinks are not followed.
    pub kind: FileType,
}

impl EntryCursor {
    /// Starts listing a folder.
    pub fn of(folder: impl AsFd) -> io::Result<Self> {
        Ok(Self(Dir::new(open_to_list(folder.as_fd(), ".")?)?))
    }
}

impl Iterator for EntryCursor {
    type Item = io::Result<ListedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.0.read()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let mut kind = entry.file_type();
            // The file system does not report types.
            if kind == FileType::Unknown
                && let Ok(folder) = self.0.fd()
                && let Ok(found) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            {
                kind = FileType::from_raw_mode(found.st_mode);
            }
            let name = OsStr::from_bytes(name.to_bytes()).to_owned();
            return Some(Ok(ListedEntry { name, kind }));
        }
    }
}

/// Opens a folder for listing. Refuses a symlink.
pub(crate) fn open_to_list(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let open = |flags: OFlags| {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(parent, name, flags, Mode::empty())
    };
    broker::retry_with_broker(open(OFlags::RDONLY), || open(OFlags::PATH))
}
