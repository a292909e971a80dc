//! Changes that the watcher's thread has noticed and that are not handled yet.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::configured::{AffectedListings, ConfiguredFolders};

/// The time without further changes before changes are handled. Copying files makes many
/// changes.
const QUIET_TIME: Duration = Duration::from_millis(200);

/// The longest time that changes of skills may continue before they are handled.
const MAX_WAIT: Duration = Duration::from_millis(600);

/// The longest time that changes of component files may continue before they are handled. It
/// is longer, because a component that is half written is invalid.
const MAX_WAIT_FOR_TOOLS: Duration = Duration::from_secs(2);

/// Changes that are not handled yet.
#[derive(Debug)]
pub(super) struct PendingChanges {
    folders: Arc<ConfiguredFolders>,
    notify: Notify,
    skills: AtomicBool,
    tools: AtomicBool,
    roots: AtomicBool,
    settings: AtomicBool,
    /// The number of changes of settings.
    settings_changes: watch::Sender<u64>,
}

/// The kinds of changes to handle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// Skills or their files have changed.
    pub(super) skills: bool,
    /// Component files have changed.
    pub(super) tools: bool,
    /// A configured folder was replaced.
    pub(super) roots: bool,
    /// Files of settings have changed.
    pub(super) settings: bool,
}

impl PendingChanges {
    pub(super) fn new(folders: Arc<ConfiguredFolders>) -> Self {
        Self {
            folders,
            notify: Notify::new(),
            skills: AtomicBool::new(false),
            tools: AtomicBool::new(false),
            roots: AtomicBool::new(false),
            settings: AtomicBool::new(false),
            settings_changes: watch::Sender::new(0),
        }
    }

    /// Returns a receiver of the changes of settings from now on.
    pub(super) fn settings(&self) -> watch::Receiver<u64> {
        self.settings_changes.subscribe()
    }

    /// Records a change at a path.
    pub(super) fn record(&self, path: &Path) {
        let AffectedListings { skills, tools } = self.folders.affected_by(path);
        self.add(skills, tools);
    }

    /// Records that anything may have changed.
    pub(super) fn record_all(&self) {
        self.add(true, true);
    }

    /// Records that a configured folder was replaced.
    pub(super) fn record_replaced_root(&self) {
        self.roots.store(true, Ordering::SeqCst);
        self.record_all();
    }

    /// Records that a file of settings has changed.
    pub(super) fn record_settings(&self) {
        self.settings.store(true, Ordering::SeqCst);
        self.settings_changes.send_modify(|number| *number += 1);
        self.notify.notify_one();
    }

    fn add(&self, skills: bool, tools: bool) {
        self.skills.fetch_or(skills, Ordering::SeqCst);
        self.tools.fetch_or(tools, Ordering::SeqCst);
        if skills || tools {
            self.notify.notify_one();
        }
    }

    /// Waits for a change, and then until no more follow or a time limit is reached.
    pub(super) async fn next(&self) -> Pending {
        self.notify.notified().await;
        let max_wait = if self.tools.load(Ordering::SeqCst) {
            MAX_WAIT_FOR_TOOLS
        } else {
            MAX_WAIT
        };
        let limit = tokio::time::sleep(max_wait);
        tokio::pin!(limit);
        loop {
            tokio::select! {
                () = &mut limit => break,
                () = tokio::time::sleep(QUIET_TIME) => break,
                () = self.notify.notified() => {}
            }
        }
        let take = |flag: &AtomicBool| flag.swap(false, Ordering::SeqCst);
        Pending {
            skills: take(&self.skills),
            tools: take(&self.tools),
            roots: take(&self.roots),
            settings: take(&self.settings),
        }
    }
}
