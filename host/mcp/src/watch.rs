//! Watching folders for changes: skills roots with the folders in them, and
//! tools folders. Once changes come to rest, the affected part of the host is
//! reloaded and clients are notified.
//!
//! Lives here: the start and the end, and the handling of changes. `watcher` is the
//! thread that notices them, with `watches` and `inotify` for the kernel's reports, and
//! `walk` and `visit` for looks at folders. `pending` hands changes over.

mod configured;
mod inotify;
mod pending;
mod visit;
mod walk;
mod watches;
mod watcher;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use rustix::event::{EventfdFlags, eventfd};

use self::configured::ConfiguredFolders;
use self::pending::PendingChanges;
use self::watcher::Watcher;
use self::watches::WatchBound;
use super::live::LiveHost;
use skillhost::Line;

/// Watches folders until it is dropped.
#[derive(Debug)]
pub struct FolderWatch {
    handling: tokio::task::JoinHandle<()>,
    stop: Arc<OwnedFd>,
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        self.handling.abort();
        // It fails only if it was written before.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }
}

impl LiveHost {
    /// Watches the host's folders until the returned value is dropped. Changes
    /// from here on are not missed, even if the host is not loaded yet, and even if
    /// the folder is not watched yet: the first scan looks for what has changed
    /// since.
    ///
    /// Call it in a tokio runtime, and before a client asks for capabilities.
    ///
    /// # Errors
    ///
    /// If the system refuses a watcher, or a path cannot be made absolute.
    pub fn watch(self: &Arc<Self>) -> anyhow::Result<FolderWatch> {
        const CANNOT: &str = "cannot watch folders for changes";
        let configured = Arc::new(ConfiguredFolders::new(self.builder())?);
        let pending = Arc::new(PendingChanges::new(Arc::clone(&configured)));
        let live = Arc::downgrade(self);
        let publish = move |counts| {
            if let Some(live) = live.upgrade() {
                live.set_folder_counts(counts);
            }
        };
        let changes = Arc::clone(&pending);
        let watcher = Watcher::new(configured, changes, WatchBound::of_system(), publish);
        let watcher = watcher.context(CANNOT)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context(CANNOT)?;
        let stop = Arc::new(stop);
        let stopped = Arc::clone(&stop);
        std::thread::Builder::new()
            .name("skillhost-watch".to_owned())
            .spawn(move || watcher.run(&stopped))
            .context(CANNOT)?;
        self.set_watched();
        Ok(FolderWatch {
            handling: tokio::spawn(keep_current(Arc::clone(self), pending)),
            stop,
        })
    }
}

/// Keeps the host up to date with its folders.
async fn keep_current(live: Arc<LiveHost>, pending: Arc<PendingChanges>) {
    // A host that is replaced before would lose what is being compiled.
    live.complete_host().await;
    let mut advice = live.advice().await;
    loop {
        let changed = pending.next().await;
        let start = Instant::now();
        if changed.tools || changed.moved {
            live.reload().await;
        } else {
            live.check_offer().await;
        }
        if changed.skills || changed.moved {
            live.notify_skills_changed().await;
            advice = warn_of_empty_roots(&live, advice).await;
        }
        // Endless changes take at most half of one thread.
        tokio::time::sleep(start.elapsed()).await;
    }
}

/// Logs which roots have lost their last skill. Returns the advice about all roots without
/// skills.
async fn warn_of_empty_roots(live: &LiveHost, before: Vec<String>) -> Vec<String> {
    let now = live.advice().await;
    // Advice about a root that was empty before changes with what lies below it.
    if now.len() > before.len() {
        for root in now.iter().filter(|root| !before.contains(root)) {
            tracing::warn!("{}", Line::new(root));
        }
    }
    now
}
