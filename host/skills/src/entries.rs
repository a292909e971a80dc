//! Reads the entries of a folder one by one through its handle. The guard decides whether
//! an entry may be opened.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::path::Arg;

use crate::broker::Opener;
use crate::omitted::{OmittedNames, Volume};

/// The entries of a folder.
#[derive(Debug)]
pub struct EntryCursor {
    folder: Dir,
}

/// The entries of a folder, without those that lists leave out.
///
/// Yields `None` for an entry that is left out, so that the caller can count it and stop. Guards
/// against: a million such entries.
#[derive(Debug)]
pub struct ListedEntries {
    entries: EntryCursor,
    left_out: Option<LeftOut>,
}

/// The entries that a listing leaves out.
#[derive(Debug)]
struct LeftOut {
    names: OmittedNames,
    volume: Option<Volume>,
}

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
    pub fn open(
        parent: BorrowedFd<'_>,
        name: impl Arg + Copy,
        opener: &Opener,
    ) -> io::Result<Self> {
        let open = |flags: OFlags| {
            let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        };
        let folder = opener.or_ask_broker(open(OFlags::RDONLY), || open(OFlags::PATH))?;
        let folder = Dir::new(folder)?;
        Ok(Self { folder })
    }

    /// Leaves out these names, and the generations of a Kubernetes volume.
    pub(crate) fn without(self, names: Option<OmittedNames>) -> ListedEntries {
        let left_out = names.map(|names| LeftOut {
            names,
            volume: self.folder.fd().ok().and_then(Volume::of),
        });
        ListedEntries {
            entries: self,
            left_out,
        }
    }
}

impl Iterator for EntryCursor {
    type Item = io::Result<ListedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.folder.read()? {
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
                && let Ok(folder) = self.folder.fd()
                && let Ok(found) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            {
                kind = FileType::from_raw_mode(found.st_mode);
            }
            let name = OsStr::from_bytes(name.to_bytes()).to_owned();
            return Some(Ok(ListedEntry { name, kind }));
        }
    }
}

impl Iterator for ListedEntries {
    type Item = io::Result<Option<ListedEntry>>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = match self.entries.next()? {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        let is_left_out = match (&self.left_out, self.entries.folder.fd()) {
            (Some(left_out), Ok(folder)) => {
                let volume = left_out.volume.as_ref();
                volume.is_some_and(|volume| volume.is_listed_elsewhere(folder, &entry.name))
                    || left_out.names.has(folder, &entry.name)
            }
            _ => false,
        };
        Some(Ok((!is_left_out).then_some(entry)))
    }
}
