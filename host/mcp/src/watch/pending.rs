//! Changes that were seen on the watcher's thread and are not handled yet.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::configured::{Concern, ConfiguredFolders};

/// The time without changes after which they are handled: a copy is many changes.
const QUIET: Duration = Duration::from_millis(200);

/// The longest time that changes of skills may go on before they are handled.
const MOST_WAIT: Duration = Duration::from_millis(600);

/// The longest time that changes of component files may go on: half a component is
/// no component.
const MOST_WAIT_FOR_TOOLS: Duration = Duration::from_secs(2);

/// Changes that are not handled yet.
#[derive(Debug)]
pub(super) struct PendingChanges {
    folders: Arc<ConfiguredFolders>,
    notify: Notify,
    skills: AtomicBool,
    tools: AtomicBool,
    moved: AtomicBool,
}

/// Changes to handle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// Skills or their files have changed.
    pub(super) skills: bool,
    /// Component files have changed.
    pub(super) tools: bool,
    /// A configured folder is another one than before.
    pub(super) moved: bool,
}

impl PendingChanges {
    pub(super) fn new(folders: Arc<ConfiguredFolders>) -> Self {
        Self {
            folders,
            notify: Notify::new(),
            skills: AtomicBool::new(false),
            tools: AtomicBool::new(false),
            moved: AtomicBool::new(false),
        }
    }

    /// Records that something changed at this path.
    pub(super) fn record(&self, path: &Path) {
        let Concern { skills, tools } = self.folders.concern(path);
        self.add(skills, tools);
    }

    /// Records that anything may have changed.
    pub(super) fn record_all(&self) {
        self.add(true, true);
    }

    /// Records that a configured folder is another one than before.
    pub(super) fn record_moved(&self) {
        self.moved.store(true, Ordering::SeqCst);
        self.record_all();
    }

    fn add(&self, skills: bool, tools: bool) {
        self.skills.fetch_or(skills, Ordering::SeqCst);
        self.tools.fetch_or(tools, Ordering::SeqCst);
        if skills || tools {
            self.notify.notify_one();
        }
    }

    /// Waits for changes, and then until no more come, up to a bound.
    pub(super) async fn next(&self) -> Pending {
        self.notify.notified().await;
        let most = match self.tools.load(Ordering::SeqCst) {
            true => MOST_WAIT_FOR_TOOLS,
            false => MOST_WAIT,
        };
        let latest = tokio::time::sleep(most);
        tokio::pin!(latest);
        loop {
            tokio::select! {
                () = &mut latest => break,
                () = tokio::time::sleep(QUIET) => break,
                () = self.notify.notified() => {}
            }
        }
        let take = |flag: &AtomicBool| flag.swap(false, Ordering::SeqCst);
        Pending {
            skills: take(&self.skills),
            tools: take(&self.tools),
            moved: take(&self.moved),
        }
    }
}
