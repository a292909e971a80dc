//! Folders that change: skills roots with what is in them, and tools folders.
//! After a change has come to rest, the host is reloaded as far as it is
//! affected, and clients are told.
//!
//! Each folder is watched by itself, and no symlink is followed, so that what
//! lies in a skill decides neither where this looks nor how much it holds.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use notify::{Config, Event, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::live::Live;
use skillhost::HostBuilder;
use skillhost::Line;
use skillhost::SkillsRoot;

/// How long nothing must change before a change is looked at: a copy is many.
const QUIET: Duration = Duration::from_millis(200);

/// Longest that changes that do not come to rest are waited for.
const RESTLESS: Duration = Duration::from_secs(2);

/// How often the configured folders are looked up again: one that was replaced
/// says nothing itself.
const LOOK: Duration = Duration::from_secs(2);

/// Most folders that are watched. Meets: a skill of a million folders. The
/// kernel's own limit is often not much higher.
const FOLDERS: usize = 4096;

/// Deepest folder of a root that is watched.
const DEPTH: usize = 16;

/// Most entries of folders that are looked at for further folders.
const ENTRIES: usize = 200_000;

/// Folders are watched for as long as this is kept.
#[derive(Debug)]
pub struct Watching(tokio::task::JoinHandle<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The folders that are configured.
struct Configured {
    skills: Vec<SkillsRoot>,
    tools: Vec<PathBuf>,
}

/// What the watcher's thread has seen.
#[derive(Default)]
struct Seen {
    something: Notify,
    skills: AtomicBool,
    tools: AtomicBool,
}

/// Which inode a path leads to.
type Identity = (u64, u64);

struct Watch {
    configured: Arc<Configured>,
    watcher: RecommendedWatcher,
    followed: BTreeMap<PathBuf, Identity>,
    /// Whether it was said that there are too many folders.
    too_many: bool,
}

impl Live {
    /// Watches the host's folders, for as long as the value is kept. What
    /// changes from here on is not missed, though the host may not be loaded
    /// yet: of thousands of skills the folders are watched in a moment, and
    /// lists wait for that. Must be called in a tokio runtime, and before a
    /// server is asked what it can do.
    pub fn watch(self: &Arc<Self>) -> anyhow::Result<Watching> {
        let configured = Arc::new(Configured::of(self.builder())?);
        let seen = Arc::new(Seen::default());
        let (told, folders) = (Arc::clone(&seen), Arc::clone(&configured));
        // That a file was opened and read is no change: every call does so. Of
        // what a linker writes to memory, only the closing is told.
        let kinds = EventKindMask::CORE | EventKindMask::ACCESS_CLOSE;
        let changes = Config::default().with_event_kinds(kinds);
        let watcher = RecommendedWatcher::new(move |event| told.by(event, &folders), changes);
        let mut watch = Watch {
            configured,
            watcher: watcher.context("cannot watch folders for changes")?,
            followed: BTreeMap::new(),
            too_many: false,
        };
        // What a host is built from must not change unseen while it is.
        watch.follow(0);
        self.set_watched();
        let following = Following::begin(self);
        let all = tokio::task::spawn_blocking(move || {
            watch.follow(DEPTH);
            drop(following);
            watch
        });
        let live = Arc::clone(self);
        Ok(Watching(tokio::spawn(async move {
            match all.await {
                Ok(watch) => keep_up(live, seen, watch).await,
                Err(error) => tracing::error!("changes of folders are not seen: {error}"),
            }
        })))
    }
}

/// Kept while folders are not watched yet that are to be.
struct Following(Arc<Live>);

impl Following {
    fn begin(live: &Arc<Live>) -> Self {
        live.set_following(true);
        Self(Arc::clone(live))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.set_following(false);
    }
}

impl Configured {
    /// The folders that a host is built from, by the paths that events name
    /// them by.
    fn of(builder: &HostBuilder) -> anyhow::Result<Self> {
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

/// Brings the host up to date with its folders, again and again.
async fn keep_up(live: Arc<Live>, seen: Arc<Seen>, mut watch: Watch) {
    live.host_to_list().await;
    loop {
        let moved = tokio::select! {
            () = seen.something.notified() => false,
            () = tokio::time::sleep(LOOK) => {
                if watch.is_in_place() {
                    continue;
                }
                true
            }
        };
        seen.rest().await;
        let start = Instant::now();
        let skills = seen.skills.swap(false, Ordering::SeqCst) || moved;
        let tools = seen.tools.swap(false, Ordering::SeqCst) || moved;
        let followed = tokio::task::spawn_blocking(move || {
            let in_place = watch.is_in_place();
            watch.follow(DEPTH);
            (watch, in_place)
        });
        let in_place;
        (watch, in_place) = match followed.await {
            Ok(followed) => followed,
            Err(error) => {
                tracing::error!("changes of folders are no longer seen: {error}");
                return;
            }
        };
        if tools || !in_place {
            live.reload().await;
        } else {
            live.look().await;
        }
        if skills || !in_place {
            live.skills_changed().await;
        }
        // Whoever changes folders all the time gets half of one thread.
        tokio::time::sleep(start.elapsed()).await;
    }
}

impl Seen {
    /// Notes an event. Runs on the watcher's thread.
    fn by(&self, event: notify::Result<Event>, folders: &Configured) {
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
                tracing::warn!("a change of a folder may not have been seen: {error}");
                (true, true)
            }
        };
        self.skills.fetch_or(skills, Ordering::SeqCst);
        self.tools.fetch_or(tools, Ordering::SeqCst);
        if skills || tools {
            self.something.notify_one();
        }
    }

    /// Waits until nothing more happens, for so long.
    async fn rest(&self) {
        let latest = tokio::time::sleep(RESTLESS);
        tokio::pin!(latest);
        loop {
            tokio::select! {
                () = &mut latest => return,
                () = tokio::time::sleep(QUIET) => return,
                () = self.something.notified() => {}
            }
        }
    }
}

fn is_component(path: &Path, folder: &Path) -> bool {
    path.parent() == Some(folder) && path.extension().is_some_and(|found| found == "wasm")
}

impl Watch {
    /// Whether every configured folder is the one that is watched.
    fn is_in_place(&self) -> bool {
        self.roots()
            .all(|root| identity(root) == self.followed.get(root).copied())
    }

    fn roots(&self) -> impl Iterator<Item = &Path> {
        let skills = self.configured.skills.iter();
        skills
            .map(|root| &*root.path)
            .chain(self.configured.tools.iter().map(|folder| &**folder))
    }

    /// Watches the folders that there are now down to this depth, and no
    /// others.
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
                .map(|folder| (folder.clone(), DEPTH, false)),
        );
        let mut entries = 0;
        while let Some((folder, depth, follow_links)) = folders.pop_front() {
            let Some(found) = identity(&folder) else {
                continue;
            };
            if wanted.len() == FOLDERS || entries >= ENTRIES {
                self.say_too_many();
                break;
            }
            if self.followed.get(&folder) != Some(&found) && !self.add(&folder) {
                continue;
            }
            // Listed after it is watched, so that nothing falls between.
            if depth < deepest {
                for inner in folders_in(&folder, follow_links, &mut entries) {
                    folders.push_back((inner, depth + 1, false));
                }
            }
            wanted.insert(folder, found);
        }
        for (folder, _) in std::mem::replace(&mut self.followed, wanted) {
            if !self.followed.contains_key(&folder) {
                // Fails for one that is gone, whose watch went with it.
                let _ = self.watcher.unwatch(&folder);
            }
        }
    }

    fn add(&mut self, folder: &Path) -> bool {
        // Another inode may have been watched by this path.
        let _ = self.watcher.unwatch(folder);
        let added = self.watcher.watch(folder, RecursiveMode::NonRecursive);
        if let Err(error) = &added {
            tracing::warn!(
                "changes in the folder `{}` are not seen: {error}",
                Line::new(folder.display())
            );
        }
        added.is_ok()
    }

    fn say_too_many(&mut self) {
        if !self.too_many {
            tracing::warn!(
                "there are more than {FOLDERS} folders of skills; changes in the others are not seen"
            );
        }
        self.too_many = true;
    }
}

/// The folders in a folder, sorted; symlinks to folders only if asked for.
fn folders_in(folder: &Path, follow_links: bool, entries: &mut usize) -> Vec<PathBuf> {
    let Ok(found) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut folders = Vec::new();
    for entry in found.flatten() {
        *entries += 1;
        if *entries >= ENTRIES {
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

fn identity(folder: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(folder).ok()?;
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
}
