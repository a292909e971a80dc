//! The requests that a confined host sends to its broker: to open files and folders, to watch
//! folders, and to start child processes. The program implements the broker and the process
//! sandbox.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::inotify;
use rustix::io::Errno;

pub use skillhost_helper::ChildHandle;

/// A process outside the process sandbox that acts for this one.
pub trait Broker: Send + Sync {
    /// Opens a file or folder for reading, given an `O_PATH` descriptor of it.
    fn open(&self, handle: BorrowedFd<'_>) -> io::Result<OwnedFd>;

    /// Watches a folder for events. Returns the watch descriptor.
    fn watch(
        &self,
        inotify: BorrowedFd<'_>,
        folder: BorrowedFd<'_>,
        events: u32,
    ) -> io::Result<i32>;

    /// Opens the audit log for reading and appending. Creates a new file if the log was renamed.
    fn open_log(&self) -> io::Result<OwnedFd>;

    /// Appends a line to the file of consent. Creates the file if it is missing.
    fn append_consent(&self, line: &str) -> io::Result<()>;

    /// Appends a line to the file of requests for packages. Creates the file if it is missing.
    fn append_package_request(&self, line: &str) -> io::Result<()>;

    /// Starts a child process for a task, with these streams as its stdin, stdout and stderr.
    fn start(
        &self,
        task: &str,
        environment: Vec<(String, String)>,
        streams: [OwnedFd; 3],
    ) -> io::Result<Box<dyn ChildHandle>>;
}

/// Opens files directly, or through a broker if the process sandbox refuses them.
///
/// Each host has its own opener, because a process may run several hosts.
#[derive(Clone, Default)]
pub struct Opener(Option<Arc<dyn Broker>>);

impl Opener {
    /// The opener of a host without a broker.
    pub const DIRECT: Self = Self(None);

    /// Returns an opener that asks this broker.
    pub fn with_broker(broker: Arc<dyn Broker>) -> Self {
        Self(Some(broker))
    }

    /// Returns the broker, or `None` if the host has none.
    pub fn broker(&self) -> Option<&dyn Broker> {
        self.0.as_deref()
    }

    /// Returns the opened file. Asks the broker to open it if `opened` is `EACCES`, the error of the
    /// process sandbox. `handle` returns an `O_PATH` descriptor of the same file.
    pub fn or_ask_broker(
        &self,
        opened: Result<OwnedFd, Errno>,
        handle: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        match (opened, self.broker()) {
            (Err(Errno::ACCESS), Some(broker)) => {
                let opened = broker.open(handle()?.as_fd());
                opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
            }
            (opened, _) => opened,
        }
    }

    /// Watches an open folder with inotify, through the broker if there is one.
    pub fn watch_folder(
        &self,
        inotify: BorrowedFd<'_>,
        folder: BorrowedFd<'_>,
        events: inotify::WatchFlags,
    ) -> Result<i32, Errno> {
        let Some(broker) = self.broker() else {
            // This watches the open folder, even if its path now leads elsewhere.
            let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
            return inotify::add_watch(inotify, path, events);
        };
        let watched = broker.watch(inotify, folder, events.bits());
        watched.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::ACCESS))
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "Opener(broker)",
            None => "Opener(direct)",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::path::{Path, PathBuf};

    use super::*;

    /// A broker that opens the same file for every request, and does nothing else.
    pub(crate) struct FixedBroker(PathBuf);

    impl FixedBroker {
        pub(crate) fn new(file: &Path) -> Arc<Self> {
            Arc::new(Self(file.to_owned()))
        }
    }

    impl Broker for FixedBroker {
        fn open(&self, _: BorrowedFd<'_>) -> io::Result<OwnedFd> {
            Ok(File::open(&self.0)?.into())
        }

        fn watch(&self, _: BorrowedFd<'_>, _: BorrowedFd<'_>, _: u32) -> io::Result<i32> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn open_log(&self) -> io::Result<OwnedFd> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn append_consent(&self, _: &str) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn append_package_request(&self, _: &str) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn start(
            &self,
            _: &str,
            _: Vec<(String, String)>,
            _: [OwnedFd; 3],
        ) -> io::Result<Box<dyn ChildHandle>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn each_opener_asks_only_its_own_broker() {
        let folder = tempfile::tempdir().unwrap();
        let openers = ["one", "other"].map(|name| {
            let file = folder.path().join(name);
            std::fs::write(&file, name).unwrap();
            Opener::with_broker(FixedBroker::new(&file))
        });
        let [one, other] = &openers;
        for (opener, refusal, expected) in [
            (one, Errno::ACCESS, Ok("one")),
            (other, Errno::ACCESS, Ok("other")),
            (&Opener::DIRECT, Errno::ACCESS, Err(Errno::ACCESS)),
            // The process sandbox refuses files with `EACCES` only.
            (one, Errno::NOENT, Err(Errno::NOENT)),
        ] {
            let handle = || Ok(File::open(folder.path()).unwrap().into());
            let opened = opener.or_ask_broker(Err(refusal), handle);
            let text = opened.map(|file| {
                let mut text = String::new();
                File::from(file).read_to_string(&mut text).unwrap();
                text
            });
            assert_eq!(text, expected.map(str::to_owned), "{opener:?}");
        }
    }
}
