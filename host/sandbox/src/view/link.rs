//! Symlinks of a view.

use std::sync::Mutex;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::budget::BudgetCharge;
use super::node::{NodeId, NodeStatus, Times, Timestamp, lock};
use skillhost_skills::guard::FileStatus;

/// A symlink in a view.
pub(super) struct LinkNode {
    id: NodeId,
    /// The relative target, or the error of reading it from the disk. The guard refuses absolute
    /// targets, which guests must not see.
    pub(super) target: Result<String, Errno>,
    size: u64,
    state: Mutex<LinkState>,
    _charge: BudgetCharge,
}

struct LinkState {
    links: u64,
    times: Times,
}

impl LinkNode {
    /// Creates a link.
    pub(super) fn new(target: String, charge: BudgetCharge) -> Self {
        Self {
            id: NodeId::new(),
            size: target.len() as u64,
            target: Ok(target),
            state: Mutex::new(LinkState {
                links: 1,
                times: Times::new(),
            }),
            _charge: charge,
        }
    }

    /// Creates the node of a link on the disk.
    pub(super) fn on_disk(
        status: FileStatus,
        target: Result<String, Errno>,
        charge: BudgetCharge,
    ) -> Self {
        let status = NodeStatus::from(status);
        Self {
            id: status.id,
            size: status.size,
            target,
            state: Mutex::new(LinkState {
                links: status.links,
                times: Times::of(&status),
            }),
            _charge: charge,
        }
    }

    pub(super) fn status(&self) -> NodeStatus {
        let state = lock(&self.state);
        NodeStatus::in_memory(
            self.id,
            FileType::Symlink,
            state.links,
            self.size,
            state.times,
        )
    }

    pub(super) fn set_times(&self, accessed: Option<Timestamp>, modified: Option<Timestamp>) {
        lock(&self.state).times.set(accessed, modified);
    }

    /// Changes the number of hard links and the times.
    pub(super) fn change_links(&self, change: impl FnOnce(&mut u64, &mut Times)) {
        let state = &mut *lock(&self.state);
        change(&mut state.links, &mut state.times);
    }
}
