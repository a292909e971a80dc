//! One visit of a folder: finds the folders in it, and an entry that has changed since an
//! earlier time.
//!
//! A changed entry has a later status time (`ctime`), which nobody can set back. Added and
//! removed entries change the status time of their folder. So a visit needs no state from an
//! earlier visit.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::time::ClockId;
use skillhost_skills::broker::Opener;

/// The maximum number of entries of a folder that are checked. Guards against: a folder with
/// millions of files.
pub(super) const MAX_ENTRIES: usize = 200_000;

/// A time of the clock that the kernel uses for timestamps of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileTime(i64, i64);

/// The device and the inode of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FolderId(u64, u64);

/// An open folder.
pub(super) struct OpenFolder {
    pub(super) handle: OwnedFd,
    pub(super) id: FolderId,
    status_time: FileTime,
}

/// The result of a visit.
#[derive(Default)]
pub(super) struct VisitResult {
    /// The names of the folders in the visited folder, and of symlinks if these are requested.
    pub(super) folders: Vec<OsString>,
    /// The name of one entry that has changed. It is empty if the folder itself has changed.
    pub(super) changed: Option<OsString>,
    /// True if the folder has more than [`MAX_ENTRIES`].
    pub(super) is_cut: bool,
}

/// Returns the processor time of this thread.
pub(super) fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl FileTime {
    /// Returns the current time.
    pub(super) fn now() -> Self {
        let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
        Self(now.tv_sec, now.tv_nsec)
    }

    #[allow(
        clippy::cast_possible_wrap,
        clippy::unnecessary_cast,
        reason = "the types of these fields differ between architectures; the values are small"
    )]
    fn from_stat(stat: &Stat) -> Self {
        Self(stat.st_ctime as i64, stat.st_ctime_nsec as i64)
    }
}

impl FolderId {
    /// Returns the identity of the folder at a path, or `None` if there is no folder.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let stat = rustix::fs::stat(path).ok()?;
        FileType::from_raw_mode(stat.st_mode)
            .is_dir()
            .then(|| Self::from_stat(&stat))
    }

    #[allow(
        clippy::unnecessary_cast,
        reason = "the types of these fields differ between architectures"
    )]
    fn from_stat(stat: &Stat) -> Self {
        Self(stat.st_dev as u64, stat.st_ino as u64)
    }
}

impl OpenFolder {
    /// Opens a folder. Returns `None` if it does not exist or cannot be read.
    pub(super) fn open(path: &Path, follow_link: bool, opener: &Opener) -> Option<Self> {
        let open = |flags: OFlags| {
            let mut flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
            if !follow_link {
                flags |= OFlags::NOFOLLOW;
            }
            rustix::fs::openat(CWD, path, flags, Mode::empty())
        };
        let handle = opener.or_ask_broker(open(OFlags::RDONLY), || open(OFlags::PATH));
        let handle = handle.ok()?;
        let stat = rustix::fs::fstat(&handle).ok()?;
        Some(Self {
            id: FolderId::from_stat(&stat),
            status_time: FileTime::from_stat(&stat),
            handle,
        })
    }

    /// Reads the folder's entries. With `since`, also looks for an entry that has changed since
    /// that time.
    pub(super) fn read(self, since: Option<FileTime>, include_links: bool) -> VisitResult {
        let mut result = VisitResult::default();
        if since.is_some_and(|since| self.status_time >= since) {
            result.changed = Some(OsString::new());
        }
        let Ok(mut entries) = Dir::new(self.handle) else {
            return result;
        };
        let mut count = 0;
        while let Some(Ok(entry)) = entries.read() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            count += 1;
            if count > MAX_ENTRIES {
                result.is_cut = true;
                break;
            }
            let mut kind = entry.file_type();
            // One changed entry is enough. Folders are not compared: they have their own visits.
            let compare_since = since.filter(|_| result.changed.is_none() && !kind.is_dir());
            if (compare_since.is_some() || kind == FileType::Unknown)
                && let Ok(folder) = entries.fd()
                && let Ok(stat) =
                    rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            {
                kind = FileType::from_raw_mode(stat.st_mode);
                if compare_since
                    .is_some_and(|since| !kind.is_dir() && FileTime::from_stat(&stat) >= since)
                {
                    result.changed = Some(name.to_owned());
                }
            }
            if kind.is_dir() || include_links && kind.is_symlink() {
                result.folders.push(name.to_owned());
            }
        }
        result
    }
}
