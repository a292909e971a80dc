//! Watches folders for changes: skills roots with the folders in them, and tools folders.
//! Once changes stop, reloads the affected part of the host and notifies clients.
//!
//! This file starts and stops the watch, and handles changes. The thread in `watcher` notices
//! them: `watches` receives the kernel's reports, `walk` and `visit` scan folders. `pending`
//! passes the changes from that thread to this file.

mod configured;
mod pending;
mod visit;
mod walk;
mod watches;
mod watcher;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use rustix::event::{EventfdFlags, eventfd};

use self::configured::ConfiguredFolders;
use self::pending::PendingChanges;
use self::watcher::Watcher;
use self::watches::WatchLimit;
use super::live::LiveHost;
use skillhost::Line;

/// The watch on a host's folders. Dropping it ends the watch.
#[derive(Debug)]
pub struct FolderWatch {
    handling: tokio::task::JoinHandle<()>,
    stop: Arc<OwnedFd>,
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        self.handling.abort();
        // Cannot fail: nothing else writes to this eventfd.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }
}

impl LiveHost {
    /// Watches the host's folders until the returned value is dropped.
    ///
    /// No change after this call is missed: the first scan looks for all changes since then, even
    /// if the host is loaded later.
    ///
    /// Must be called in a tokio runtime, before a client asks for capabilities.
    ///
    /// # Errors
    ///
    /// If the system refuses a watcher or a thread, or a path cannot be made absolute.
    pub fn watch(self: &Arc<Self>) -> anyhow::Result<FolderWatch> {
        const FAILURE: &str = "cannot watch folders for changes";
        let configured = Arc::new(ConfiguredFolders::new(self.builder())?);
        let files = self.settings_files().to_vec();
        let pending = Arc::new(PendingChanges::new(Arc::clone(&configured)));
        let live = Arc::downgrade(self);
        let publish = move |counts| {
            if let Some(live) = live.upgrade() {
                live.set_folder_counts(counts);
            }
        };
        let changes = Arc::clone(&pending);
        let watcher =
            Watcher::new(configured, changes, WatchLimit::of_system(), publish).context(FAILURE)?;
        let watcher = watcher.with_files(files);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = Arc::new(eventfd(0, flags).context(FAILURE)?);
        let stopped = Arc::clone(&stop);
        std::thread::Builder::new()
            .name("skillhost-watch".to_owned())
            .spawn(move || watcher.run(&stopped))
            .context(FAILURE)?;
        self.set_watched();
        Ok(FolderWatch {
            handling: tokio::spawn(handle_changes(Arc::clone(self), pending)),
            stop,
        })
    }
}

async fn handle_changes(live: Arc<LiveHost>, pending: Arc<PendingChanges>) {
    tokio::join!(
        keep_current(&live, &pending),
        enforce_denials(&live, &pending)
    );
}

/// Stops serving what the operator denies. Does not wait for components that are being compiled.
async fn enforce_denials(live: &LiveHost, pending: &PendingChanges) {
    let mut settings = pending.settings();
    live.serving().await;
    while settings.changed().await.is_ok() {
        live.withhold_denied().await;
    }
}

/// Reloads the host and notifies clients when folders change.
async fn keep_current(live: &LiveHost, pending: &PendingChanges) {
    // Replacing the host earlier would lose the components that are being compiled.
    live.complete_host().await;
    let mut advice = live.advice().await;
    loop {
        let changed = pending.next().await;
        let start = Instant::now();
        let mut settings = pending.settings();
        let has_new_settings = changed.settings && live.read_settings().await;
        if changed.tools || changed.roots || has_new_settings {
            live.reload().await;
        } else {
            live.notify_if_offer_changed().await;
        }
        if changed.skills || changed.roots {
            live.notify_skills_changed().await;
            advice = warn_of_empty_roots(live, advice).await;
        }
        // With this pause, endless changes take at most half of one thread's time. A change of the
        // operator's settings ends it, because a narrower grant must not wait.
        tokio::select! {
            () = tokio::time::sleep(start.elapsed()) => {}
            _ = settings.changed() => {}
        }
    }
}

/// The path of a root without skills, and the advice about it.
type RootAdvice = (PathBuf, String);

/// Logs the roots that have lost their last skill. Returns the advice about all roots
/// without skills.
async fn warn_of_empty_roots(live: &LiveHost, before: Vec<RootAdvice>) -> Vec<RootAdvice> {
    let now = live.advice().await;
    for advice in new_advice(&before, &now) {
        tracing::warn!("{}", Line::new(advice));
    }
    now
}

/// Returns the advice about roots that were not empty before. Changed advice about an empty root
/// is not new: its text also depends on the other contents of the root.
fn new_advice<'a>(before: &[RootAdvice], now: &'a [RootAdvice]) -> Vec<&'a str> {
    let was_empty = |root: &Path| before.iter().any(|(before, _)| before == root);
    let new = now.iter().filter(|(root, _)| !was_empty(root));
    new.map(|(_, advice)| advice.as_str()).collect()
}
