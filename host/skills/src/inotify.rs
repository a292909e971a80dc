//! The kernel's events about changes in folders (inotify). The caller decides which folders to
//! watch, and what an event means.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::broker::Opener;

pub use rustix::fs::inotify::ReadFlags;

/// The changes that the kernel reports. Opening and reading files are not changes, because
/// every call does both. Closing a file that was open for writing is reported, because
/// writes through a memory mapping, such as a linker's, cause no other event.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ONLYDIR);

/// The maximum size of the events in one read, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// The kernel's file with the limit on a user's watches.
const USER_LIMIT_FILE: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The kernel's watch descriptor of a folder.
pub type WatchId = i32;

/// The folders that the kernel watches for this process.
#[derive(Debug)]
pub struct Inotify {
    file: OwnedFd,
    opener: Opener,
}

/// A change in a watched folder.
#[derive(Debug)]
pub struct FolderEvent {
    /// The watch of the folder.
    pub watch: WatchId,
    /// The kind of change.
    pub flags: ReadFlags,
    /// The name of the entry. `None` if the event is about the folder itself.
    pub name: Option<OsString>,
}

impl Inotify {
    /// Creates an instance without watches. [`Self::add`] uses the broker of the opener, if any.
    ///
    /// # Errors
    ///
    /// If the user has too many instances, or the process too many descriptors.
    pub fn new(opener: Opener) -> io::Result<Self> {
        let file = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { file, opener })
    }

    /// Watches an open folder. Returns the same id if the folder is already watched.
    ///
    /// # Errors
    ///
    /// If the user has too many watches, or `folder` is not a folder.
    pub fn add(&self, folder: BorrowedFd<'_>) -> Result<WatchId, Errno> {
        let inotify = self.file.as_fd();
        self.opener.watch_folder(inotify, folder, CHANGES)
    }

    /// Stops watching a folder.
    pub fn remove(&self, watch: WatchId) {
        // Fails if the folder was removed, which also removed its watch.
        let _ = inotify::remove_watch(&self.file, watch);
    }

    /// Passes the events of one read to `on_event`. Returns whether there were any.
    pub fn read(&self, mut on_event: impl FnMut(FolderEvent)) -> bool {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.file, &mut buffer);
        let mut has_events = false;
        loop {
            // Usually the error means that there are no more events.
            let Ok(event) = reader.next() else {
                return has_events;
            };
            has_events = true;
            on_event(FolderEvent {
                watch: event.wd(),
                flags: event.events(),
                name: event
                    .file_name()
                    .map(|name| OsStr::from_bytes(name.to_bytes()).to_owned()),
            });
            if reader.is_buffer_empty() {
                return true;
            }
        }
    }

    /// Returns the kernel's limit on the folders that all processes of one user watch.
    pub fn user_limit() -> Option<usize> {
        std::fs::read_to_string(USER_LIMIT_FILE)
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
