//! Watching folders for changes: skills roots with the folders in them, and
//! tools folders. Once changes come to rest, the affected part of the host is
//! reloaded and clients are notified.
//!
//! Each folder is watched by itself, and symlinks in a skill are not followed, so
//! the contents of a skill decide neither where this looks nor how much it keeps.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use notify::{Config, Event, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::live::LiveHost;
use skillhost::HostBuilder;
use skillhost::Line;
use skillhost::SkillsRoot;

/// The time without changes after which they are handled: a copy is many changes.
const QUIET: Duration = Duration::from_millis(200);

/// The longest time that changes may go on before they are handled.
const MOST_WAIT: Duration = Duration::from_secs(2);

/// The time between checks that the configured folders were not replaced: there is
/// no event for that.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The most folders that are watched. Guards against: a skill of a million
/// folders. The kernel's own limit is often not much higher.
const MOST_FOLDERS: usize = 4096;

/// The depth of the deepest folder of a root that is watched.
const MOST_DEPTH: usize = 16;

/// The most entries that are searched for folders.
const MOST_ENTRIES: usize = 200_000;

/// Watches folders until it is dropped.
#[derive(Debug)]
pub struct FolderWatch(tokio::task::JoinHandle<()>);

impl Drop for FolderWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The configured folders, by the absolute paths that events have.
struct ConfiguredFolders {
    skills: Vec<SkillsRoot>,
    tools: Vec<PathBuf>,
}

/// Changes that were seen on the watcher's thread and are not handled yet.
#[derive(Default)]
struct PendingChanges {
    notify: Notify,
    skills: AtomicBool,
    tools: AtomicBool,
}

/// The device and inode of a folder.
type FolderIdentity = (u64, u64);

struct FolderWatcher {
    configured: Arc<ConfiguredFolders>,
    watcher: RecommendedWatcher,
    watched: BTreeMap<PathBuf, FolderIdentity>,
    /// True once a warning of too many folders was logged.
    warned: bool,
}

impl LiveHost {
    /// Watches the host's folders until the returned value is dropped. Changes
    /// from here on are not missed, even if the host is not loaded yet: listings
    /// wait until all folders are watched.
    ///
    /// Call it in a tokio runtime, and before a client asks for capabilities.
    ///
    /// # Errors
    ///
    /// If the system refuses a watcher, or a path cannot be made absolute.
    pub fn watch(self: &Arc<Self>) -> anyhow::Result<FolderWatch> {
        let configured = Arc::new(ConfiguredFolders::new(self.builder())?);
        let pending = Arc::new(PendingChanges::default());
        let (changed, folders) = (Arc::clone(&pending), Arc::clone(&configured));
        // Opening and reading a file is no change: every call does so. A file that
        // a linker writes through memory gives an event only when it is closed.
        let kinds = EventKindMask::CORE | EventKindMask::ACCESS_CLOSE;
        let changes = Config::default().with_event_kinds(kinds);
        let watcher =
            RecommendedWatcher::new(move |event| changed.record(event, &folders), changes);
        let mut watch = FolderWatcher {
            configured,
            watcher: watcher.context("cannot watch folders for changes")?,
            watched: BTreeMap::new(),
            warned: false,
        };
        // Before the host is built from them.
        watch.follow(0);
        self.set_watched();
        let scanning = ScanGuard::new(self);
        let all = tokio::task::spawn_blocking(move || {
            watch.follow(MOST_DEPTH);
            drop(scanning);
            watch
        });
        let live = Arc::clone(self);
        Ok(FolderWatch(tokio::spawn(async move {
            match all.await {
                Ok(watch) => keep_current(live, pending, watch).await,
                Err(error) => tracing::error!("changes in folders are not noticed: {error}"),
            }
        })))
    }
}

/// Marks the first scan of the folders, until it is dropped.
struct ScanGuard(Arc<LiveHost>);

impl ScanGuard {
    fn new(live: &Arc<LiveHost>) -> Self {
        live.set_scanning(true);
        Self(Arc::clone(live))
    }
}

impl Drop for ScanGuard {
    fn drop(&mut self) {
        self.0.set_scanning(false);
    }
}

impl ConfiguredFolders {
    /// Returns the folders that a host is built from.
    fn new(builder: &HostBuilder) -> anyhow::Result<Self> {
        let absolute = |path: &Path| {
            std::path::absolute(path)
                .with_context(|| format!("cannot watch the folder `{}`", path.display()))
        };
        let root = |root: &SkillsRoot| {
            Ok(SkillsRoot {
                path: absolute(&root.path)?,
                ..root.clone()
            })
        };
        let skills = builder.skills_roots().iter().map(root);
        let tools = builder.tool_folders().iter().map(|folder| absolute(folder));
        Ok(Self {
            skills: skills.collect::<anyhow::Result<_>>()?,
            tools: tools.collect::<anyhow::Result<_>>()?,
        })
    }
}

/// Keeps the host up to date with its folders.
async fn keep_current(live: Arc<LiveHost>, pending: Arc<PendingChanges>, mut watch: FolderWatcher) {
    live.host_to_list().await;
    loop {
        let moved = tokio::select! {
            () = pending.notify.notified() => false,
            () = tokio::time::sleep(CHECK_INTERVAL) => {
                if watch.is_in_place() {
                    continue;
                }
                true
            }
        };
        pending.rest().await;
        let start = Instant::now();
        let skills = pending.skills.swap(false, Ordering::SeqCst) || moved;
        let tools = pending.tools.swap(false, Ordering::SeqCst) || moved;
        let scanned = tokio::task::spawn_blocking(move || {
            let in_place = watch.is_in_place();
            watch.follow(MOST_DEPTH);
            (watch, in_place)
        });
        let in_place;
        (watch, in_place) = match scanned.await {
            Ok(scanned) => scanned,
            Err(error) => {
                tracing::error!("changes in folders are no longer noticed: {error}");
                return;
            }
        };
        if tools || !in_place {
            live.reload().await;
        } else {
            live.check_offer().await;
        }
        if skills || !in_place {
            live.notify_skills_changed().await;
        }
        // Endless changes take at most half of one thread.
        tokio::time::sleep(start.elapsed()).await;
    }
}

impl PendingChanges {
    /// Records an event. Runs on the watcher's thread.
    fn record(&self, event: notify::Result<Event>, folders: &ConfiguredFolders) {
        let (skills, tools) = match event {
            Ok(event) if event.need_rescan() => (true, true),
            Ok(event) => {
                let skills = |path: &PathBuf| {
                    let mut roots = folders.skills.iter();
                    roots.any(|root| path.starts_with(&root.path))
                };
                let tools = |path: &PathBuf| {
                    let mut all = folders.tools.iter();
                    all.any(|folder| path == folder || is_component(path, folder))
                };
                (
                    event.paths.iter().any(skills),
                    event.paths.iter().any(tools),
                )
            }
            // Events were lost.
            Err(error) => {
                tracing::warn!("a change in a folder may have been missed: {error}");
                (true, true)
            }
        };
        self.skills.fetch_or(skills, Ordering::SeqCst);
        self.tools.fetch_or(tools, Ordering::SeqCst);
        if skills || tools {
            self.notify.notify_one();
        }
    }

    /// Waits until no more changes come, up to a bound.
    async fn rest(&self) {
        let latest = tokio::time::sleep(MOST_WAIT);
        tokio::pin!(latest);
        loop {
            tokio::select! {
                () = &mut latest => return,
                () = tokio::time::sleep(QUIET) => return,
                () = self.notify.notified() => {}
            }
        }
    }
}

fn is_component(path: &Path, folder: &Path) -> bool {
    path.parent() == Some(folder) && path.extension().is_some_and(|found| found == "wasm")
}

impl FolderWatcher {
    /// Returns whether every configured folder is still the one that is watched.
    fn is_in_place(&self) -> bool {
        self.roots()
            .all(|root| identity(root) == self.watched.get(root).copied())
    }

    fn roots(&self) -> impl Iterator<Item = &Path> {
        let skills = self.configured.skills.iter();
        skills
            .map(|root| &*root.path)
            .chain(self.configured.tools.iter().map(|folder| &**folder))
    }

    /// Watches the folders that exist now, down to this depth, and no others.
    fn follow(&mut self, deepest: usize) {
        let configured = Arc::clone(&self.configured);
        let mut wanted = BTreeMap::new();
        let mut folders: VecDeque<(PathBuf, usize, bool)> = configured
            .skills
            .iter()
            .map(|root| (root.path.clone(), 0, root.follow_links))
            .collect();
        folders.extend(
            configured
                .tools
                .iter()
                .map(|folder| (folder.clone(), MOST_DEPTH, false)),
        );
        let mut entries = 0;
        while let Some((folder, depth, follow_links)) = folders.pop_front() {
            let Some(found) = identity(&folder) else {
                continue;
            };
            if wanted.len() == MOST_FOLDERS || entries >= MOST_ENTRIES {
                self.warn_of_too_many();
                break;
            }
            if self.watched.get(&folder) != Some(&found) && !self.add(&folder) {
                continue;
            }
            // Listed after it is watched, so that no change is missed.
            if depth < deepest {
                for inner in folders_in(&folder, follow_links, &mut entries) {
                    folders.push_back((inner, depth + 1, false));
                }
            }
            wanted.insert(folder, found);
        }
        for (folder, _) in std::mem::replace(&mut self.watched, wanted) {
            if !self.watched.contains_key(&folder) {
                // Fails for a folder that is gone, as its watch is.
                let _ = self.watcher.unwatch(&folder);
            }
        }
    }

    fn add(&mut self, folder: &Path) -> bool {
        // This path may have led to another inode.
        let _ = self.watcher.unwatch(folder);
        let added = self.watcher.watch(folder, RecursiveMode::NonRecursive);
        if let Err(error) = &added {
            tracing::warn!(
                "changes in the folder `{}` are not noticed: {error}",
                Line::new(folder.display())
            );
        }
        added.is_ok()
    }

    fn warn_of_too_many(&mut self) {
        if !self.warned {
            tracing::warn!(
                "there are more than {MOST_FOLDERS} folders in the skills; changes in the rest are not noticed"
            );
        }
        self.warned = true;
    }
}

/// Returns the folders in a folder, sorted. Follows symlinks only if told to.
fn folders_in(folder: &Path, follow_links: bool, entries: &mut usize) -> Vec<PathBuf> {
    let Ok(found) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut folders = Vec::new();
    for entry in found.flatten() {
        *entries += 1;
        if *entries >= MOST_ENTRIES {
            break;
        }
        let is_folder = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => follow_links && entry.path().is_dir(),
            Ok(kind) => kind.is_dir(),
            Err(_) => false,
        };
        if is_folder {
            folders.push(entry.path());
        }
    }
    folders.sort();
    folders
}

fn identity(folder: &Path) -> Option<FolderIdentity> {
    let metadata = std::fs::metadata(folder).ok()?;
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
}
