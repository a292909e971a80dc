//! The parts that all nodes of a view have: identity, status and times. The identity does not
//! change when a node is written, renamed or removed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FileType;

use skillhost_skills::guard::FileStatus;

/// The identity of a file, folder or link during a call. Guests must not see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NodeId {
    /// The device, as major and minor number, and the inode.
    Disk((u32, u32), u64),
    Memory(u64),
}

/// The status of a file, folder or link of a view.
pub(crate) struct NodeStatus {
    pub(crate) id: NodeId,
    pub(crate) kind: FileType,
    pub(crate) links: u64,
    pub(crate) size: u64,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
}

/// A time as seconds since 1970, and nanoseconds.
pub(crate) type Timestamp = (i64, u32);

/// The times that a view has set, which override those of the disk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
    changed: Option<Timestamp>,
}

impl NodeId {
    /// Returns an identity that is unique in this process.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::Memory(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn of(status: &FileStatus) -> Self {
        let (device, inode) = status.unique_id();
        Self::Disk(device, inode)
    }
}

impl NodeStatus {
    pub(super) fn in_memory(
        id: NodeId,
        kind: FileType,
        links: u64,
        size: u64,
        times: Times,
    ) -> Self {
        let without_times = Self {
            id,
            kind,
            links,
            size,
            accessed: (0, 0),
            modified: (0, 0),
            changed: (0, 0),
        };
        without_times.with_times(times)
    }

    /// Returns the status with the times that a view has set.
    pub(super) fn with_times(self, times: Times) -> Self {
        Self {
            accessed: times.accessed.unwrap_or(self.accessed),
            modified: times.modified.unwrap_or(self.modified),
            changed: times.changed.unwrap_or(self.changed),
            ..self
        }
    }
}

impl From<FileStatus> for NodeStatus {
    fn from(status: FileStatus) -> Self {
        Self {
            id: NodeId::of(&status),
            kind: status.kind,
            links: status.links,
            size: status.size,
            accessed: status.accessed,
            modified: status.modified,
            changed: status.changed(),
        }
    }
}

impl Times {
    /// Returns the times of a new node.
    pub(super) fn new() -> Self {
        let now = Some(now());
        Self {
            accessed: now,
            modified: now,
            changed: now,
        }
    }

    /// Returns the times of a status.
    pub(super) fn of(status: &NodeStatus) -> Self {
        Self {
            accessed: Some(status.accessed),
            modified: Some(status.modified),
            changed: Some(status.changed),
        }
    }

    /// Records that the content changed now.
    pub(super) fn touch(&mut self) {
        let now = Some(now());
        (self.modified, self.changed) = (now, now);
    }

    /// Records that the status changed now.
    pub(super) fn touch_status(&mut self) {
        self.changed = Some(now());
    }

    pub(super) fn set(&mut self, accessed: Option<Timestamp>, modified: Option<Timestamp>) {
        self.accessed = accessed.or(self.accessed);
        self.modified = modified.or(self.modified);
        self.touch_status();
    }
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    (seconds, since.subsec_nanos())
}

/// Locks a node's state. A call uses one thread and never holds two locks, so this never
/// waits.
pub(super) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(|broken| broken.into_inner())
}
