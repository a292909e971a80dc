//! Reading the entries of a folder one by one through its handle. The guard decides whether
//! an entry may be opened.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::broker::Opener;

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
    /// Starts listing the folder `name` in `parent`, or `parent` itself if the name is `.`.
    /// Refuses symlinks.
    pub fn open(parent: BorrowedFd<'_>, name: &str, opener: &Opener) -> io::Result<Self> {
        let open = |flags: OFlags| {
            let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        };
        let folder = opener.or_ask_broker(open(OFlags::RDONLY), || open(OFlags::PATH))?;
        Ok(Self(Dir::new(folder)?))
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
            // Some file systems do not report types.
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
