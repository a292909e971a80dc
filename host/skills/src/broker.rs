//! What a confined process asks its broker to do: to open folders that replaced a configured
//! one, and to start child processes. The process sandbox and the broker process themselves
//! belong to the program.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::inotify;
use rustix::io::Errno;

pub use skillhost_helper::ChildHandle;

/// A process outside the process sandbox that acts for this one.
pub trait Broker: Send + Sync {
    /// Opens a file or folder for reading, given an `O_PATH` descriptor of it.
    fn open(&self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd>;

    /// Watches a folder for events. Returns the number of the watch.
    fn watch(
        &self,
        inotify: BorrowedFd<'_>,
        folder: BorrowedFd<'_>,
        events: u32,
    ) -> io::Result<i32>;

    /// Opens the audit log for reading and appending. Creates it if it was renamed.
    fn open_log(&self) -> io::Result<OwnedFd>;

    /// Starts the program for a task, with these streams as its stdin, stdout and stderr.
    fn start(
        &self,
        task: &str,
        environment: Vec<(String, String)>,
        streams: [OwnedFd; 3],
    ) -> io::Result<Box<dyn ChildHandle>>;
}

/// The broker of this process. It is global because the process sandbox is.
static BROKER: OnceLock<Box<dyn Broker>> = OnceLock::new();

/// Sets the broker of this process. Later calls change nothing.
pub fn set(broker: Box<dyn Broker>) {
    let _ = BROKER.set(broker);
}

/// Returns the broker, or `None` if this process has none.
pub fn get() -> Option<&'static dyn Broker> {
    BROKER.get().map(AsRef::as_ref)
}

/// Returns what was opened for reading, or asks the broker if the process sandbox may have
/// refused it. `handle` returns an `O_PATH` descriptor of the same file.
pub fn retry_with_broker(
    opened: Result<OwnedFd, Errno>,
    handle: impl FnOnce() -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    match (opened, get()) {
        (Err(Errno::ACCESS), Some(broker)) => {
            let opened = broker.open(handle()?.as_fd());
            opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
        }
        (opened, _) => opened,
    }
}

/// Watches an open folder with inotify, through the broker if this process has one.
pub fn watch_folder(
    inotify: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
    events: inotify::WatchFlags,
) -> Result<i32, Errno> {
    let Some(broker) = get() else {
        // This watches the open folder, even if its path now leads elsewhere.
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        return inotify::add_watch(inotify, path, events);
    };
    let watched = broker.watch(inotify, folder, events.bits());
    watched.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
}
