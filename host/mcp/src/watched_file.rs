//! Notices changes of files by checking their status. Without inotify, a confined process needs no
//! access to their folders.

use std::path::{Path, PathBuf};

use rustix::fs::Stat;

/// A file or folder, and its status when it was last checked.
#[derive(Debug, Clone)]
pub struct WatchedFile {
    path: PathBuf,
    stamp: Option<Stamp>,
}

/// The parts of a file's status that change when it is written or replaced: device, inode, size and
/// the time of the last status change.
type Stamp = (u64, u64, i64, i64, i64);

impl WatchedFile {
    /// Returns the file at a path, which may be missing. Later changes will be noticed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let stamp = stamp(&path);
        Self { path, stamp }
    }

    /// Returns whether the file has changed since the last check.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = stamp(&self.path);
        std::mem::replace(&mut self.stamp, now) != now
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    rustix::fs::stat(path).ok().as_ref().map(stamp_of)
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_possible_wrap,
    reason = "the types of these fields differ between architectures"
)]
fn stamp_of(stat: &Stat) -> Stamp {
    (
        stat.st_dev as u64,
        stat.st_ino as u64,
        stat.st_size as i64,
        stat.st_ctime as i64,
        stat.st_ctime_nsec as i64,
    )
}
