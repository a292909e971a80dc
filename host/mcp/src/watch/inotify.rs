//! The kernel's reports of changes in folders (inotify): watches and events. `watcher`
//! decides which folders are watched, and what an event means.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use skillhost_skills::broker::watch_folder;

pub(super) use rustix::fs::inotify::ReadFlags;

/// The changes that the kernel reports. Opening and reading a file is no change: every call
/// does so. A file that a linker writes through a memory mapping causes an event only when
/// it is closed.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ONLYDIR);

/// The bytes that one read takes from the kernel's queue.
const BUFFER_BYTES: usize = 64 << 10;

/// The kernel's file with the limit on a user's watches.
const USER_LIMIT_FILE: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The kernel's number of a watched folder.
pub(super) type WatchId = i32;

/// The folders that the kernel watches for this process.
#[derive(Debug)]
pub(super) struct Inotify(OwnedFd);

/// A report of a change.
#[derive(Debug)]
pub(super) struct FolderEvent {
    pub(super) watch: WatchId,
    pub(super) flags: ReadFlags,
    /// The name of the entry. `None` if the event is about the folder itself.
    pub(super) name: Option<OsString>,
}

impl Inotify {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(
            CreateFlags::CLOEXEC | CreateFlags::NONBLOCK,
        )?))
    }

    /// Watches an open folder. A folder that is watched already keeps its number.
    pub(super) fn add(&self, folder: BorrowedFd<'_>) -> Result<WatchId, Errno> {
        watch_folder(self.0.as_fd(), folder, CHANGES)
    }

    /// Stops watching a folder.
    pub(super) fn remove(&self, watch: WatchId) {
        // Fails if the folder is gone, and its watch with it.
        let _ = inotify::remove_watch(&self.0, watch);
    }

    /// Passes the events of one read to `handle`. Returns whether there were any.
    pub(super) fn read(&self, mut handle: impl FnMut(FolderEvent)) -> bool {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut has_events = false;
        loop {
            // Usually the error says that there are no more events.
            let Ok(event) = reader.next() else {
                return has_events;
            };
            has_events = true;
            handle(FolderEvent {
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

    /// Returns the kernel's limit on the watched folders of one user, in all processes
    /// together.
    pub(super) fn user_limit() -> Option<usize> {
        std::fs::read_to_string(USER_LIMIT_FILE)
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
