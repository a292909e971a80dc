//! The kernel's reports of changes in folders (inotify): watches and events.
//! Which folders are watched, and what an event means, is decided in `watcher`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use skillhost::internal::watch_folder;

pub(super) use rustix::fs::inotify::ReadFlags;

/// The reports of a folder. Opening and reading a file is no change: every call does
/// so. A file that a linker writes through memory gives an event only when it is
/// closed.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ONLYDIR);

/// The bytes that one read takes from the kernel's queue.
const BUFFER: usize = 64 << 10;

/// The kernel's file with the most watches of a user.
const LIMIT: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The number that stands for a watched folder.
pub(super) type WatchId = i32;

/// The folders that the kernel watches for this process.
#[derive(Debug)]
pub(super) struct Inotify(OwnedFd);

/// A report of a change.
#[derive(Debug)]
pub(super) struct FolderEvent {
    pub(super) watch: WatchId,
    pub(super) what: ReadFlags,
    /// The name in the folder, unless the event is about the folder itself.
    pub(super) name: Option<OsString>,
}

impl Inotify {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(
            CreateFlags::CLOEXEC | CreateFlags::NONBLOCK,
        )?))
    }

    /// Watches the folder that is open here. A folder that is watched already keeps
    /// its number.
    pub(super) fn add(&self, folder: BorrowedFd<'_>) -> Result<WatchId, Errno> {
        watch_folder(self.0.as_fd(), folder, CHANGES)
    }

    /// Watches a folder no longer.
    pub(super) fn remove(&self, watch: WatchId) {
        // Fails for a folder that is gone, as its watch is.
        let _ = inotify::remove_watch(&self.0, watch);
    }

    /// Passes on the events that one read gives. Returns whether there were any.
    pub(super) fn read(&self, mut event: impl FnMut(FolderEvent)) -> bool {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut any = false;
        loop {
            // An error ends the reading: mostly that there are no more events.
            let Ok(found) = reader.next() else {
                return any;
            };
            any = true;
            event(FolderEvent {
                watch: found.wd(),
                what: found.events(),
                name: found
                    .file_name()
                    .map(|name| OsStr::from_bytes(name.to_bytes()).to_owned()),
            });
            if reader.is_buffer_empty() {
                return true;
            }
        }
    }

    /// Returns the most folders that the kernel watches for the user of this
    /// process, all processes together.
    pub(super) fn user_limit() -> Option<usize> {
        std::fs::read_to_string(LIMIT).ok()?.trim().parse().ok()
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
