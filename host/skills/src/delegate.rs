//! What this process asks another one to do once it has confined itself: to open what came
//! into a configured folder's place, and to start child processes. Not here: the wall and
//! the other process, which are the program's.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::OnceLock;

use rustix::fs::inotify;
use rustix::io::Errno;

/// A process outside of the wall.
pub trait Delegate: Send + Sync {
    /// Opens a file or folder for reading by an `O_PATH` descriptor of it.
    fn open(&self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd>;

    /// Watches a folder for these events. Returns the number of the watch.
    fn watch(
        &self,
        inotify: BorrowedFd<'_>,
        folder: BorrowedFd<'_>,
        events: u32,
    ) -> io::Result<i32>;

    /// Opens the audit log to read and append, or makes it, if it was renamed.
    fn open_log(&self) -> io::Result<OwnedFd>;

    /// Starts the program's child process for a task, on these streams: its stdin, stdout
    /// and stderr.
    fn start(
        &self,
        task: &str,
        environment: Vec<(String, String)>,
        streams: [OwnedFd; 3],
    ) -> io::Result<Box<dyn ChildHandle>>;
}

/// A child process, wherever it was started.
pub trait ChildHandle: Send {
    /// Returns the exit status, if the process has ended.
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>>;

    /// Ends the process. An error means that it has ended already.
    fn kill(&mut self) -> io::Result<()>;
}

impl ChildHandle for std::process::Child {
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.try_wait()
    }

    fn kill(&mut self) -> io::Result<()> {
        self.kill()
    }
}

/// The wall is around the whole process, and so is this.
static DELEGATE: OnceLock<Box<dyn Delegate>> = OnceLock::new();

/// Sets the process outside. The first one counts.
pub fn set(delegate: Box<dyn Delegate>) {
    let _ = DELEGATE.set(delegate);
}

/// Returns the process outside, if this one is confined.
pub fn get() -> Option<&'static dyn Delegate> {
    DELEGATE.get().map(AsRef::as_ref)
}

/// Returns what was opened for reading. If the wall may have refused it, the process
/// outside opens what `handle` returns, an `O_PATH` descriptor of the same.
pub fn opened_or_asked(
    opened: Result<OwnedFd, Errno>,
    handle: impl FnOnce() -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    match (opened, get()) {
        (Err(Errno::ACCESS), Some(delegate)) => {
            let opened = delegate.open(handle()?.as_fd());
            opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
        }
        (opened, _) => opened,
    }
}

/// Watches an open folder with inotify, or has it watched.
pub fn watched_or_asked(
    inotify: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
    events: inotify::WatchFlags,
) -> Result<i32, Errno> {
    let Some(delegate) = get() else {
        // The folder itself, whatever its path leads to by now.
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        return inotify::add_watch(inotify, path, events);
    };
    let watched = delegate.watch(inotify, folder, events.bits());
    watched.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
}
