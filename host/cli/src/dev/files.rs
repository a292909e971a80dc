//! The files of a project, and those of them that change. What a build makes
//! is not looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use notify::{Config, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};

/// How long nothing must change before a change is looked at: an editor saves
/// in several steps.
const QUIET: Duration = Duration::from_millis(200);

/// Longest that changes that do not come to rest are waited for.
const RESTLESS: Duration = Duration::from_secs(2);

/// How often files are looked at where no change is reported: some mounts
/// report none.
const LOOK: Duration = Duration::from_secs(2);

/// Most files that are looked at. Meets: a project in a folder of everything.
const MOST: usize = 20_000;

/// Deepest folder that is looked at.
const DEPTH: usize = 16;

/// Folders that builds make.
const MADE: [&str; 5] = ["build", "dist", "target", "node_modules", "__pycache__"];

/// Written by a build, too.
const LOCK: &str = "Cargo.lock";

/// A file's time and size.
type State = (SystemTime, u64);

/// A project's files, as they were when they were last asked for.
pub(super) struct Files {
    folder: PathBuf,
    known: BTreeMap<PathBuf, State>,
    watcher: Option<RecommendedWatcher>,
    events: Receiver<()>,
}

impl Files {
    /// Starts to look.
    pub(super) fn watch(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder
            .canonicalize()
            .with_context(|| format!("cannot use the folder `{}`", folder.display()))?;
        // One that waits says all: that something changed.
        let (tell, events) = sync_channel(1);
        let watcher = RecommendedWatcher::new(
            // What has changed, the files say.
            move |_| {
                // Full, or nobody listens any more.
                let _ = tell.try_send(());
            },
            Config::default().with_event_kinds(EventKindMask::CORE),
        );
        let mut files = Self {
            folder,
            known: BTreeMap::new(),
            watcher: watcher.ok(),
            events,
        };
        files.known = files.look();
        Ok(files)
    }

    /// Waits until files are other than they were, and says which.
    pub(super) fn next_change(&mut self) -> Vec<PathBuf> {
        let mut since = None;
        loop {
            let now = self.look();
            let changed = changed(&self.known, &now);
            if !changed.is_empty() {
                // What an editor has not finished yet would not build.
                let since = since.get_or_insert_with(Instant::now);
                if since.elapsed() < RESTLESS && self.events.recv_timeout(QUIET).is_ok() {
                    continue;
                }
                self.known = now;
                return changed;
            }
            match self.events.recv_timeout(LOOK) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                // No watcher, then: the clock alone.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
        }
    }

    /// The files that there are, whose folders are watched from now on.
    fn look(&mut self) -> BTreeMap<PathBuf, State> {
        let mut found = BTreeMap::new();
        let mut folders = vec![(self.folder.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            if let Some(watcher) = &mut self.watcher {
                // Watching again is nothing; what cannot be watched is looked at.
                let _ = watcher.watch(&folder, RecursiveMode::NonRecursive);
            }
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if found.len() >= MOST || name.starts_with('.') || name.ends_with('~') {
                    continue;
                }
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if metadata.is_dir() {
                    let is_made = depth == 0 && MADE.contains(&&*name) || name == "__pycache__";
                    if !is_made && depth < DEPTH {
                        folders.push((entry.path(), depth + 1));
                    }
                } else if let Ok(path) = entry.path().strip_prefix(&self.folder)
                    && path != Path::new(LOCK)
                {
                    let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.insert(path.to_owned(), (time, metadata.len()));
                }
            }
        }
        found
    }
}

/// The files that are in one of them only, or other in both.
fn changed(before: &BTreeMap<PathBuf, State>, now: &BTreeMap<PathBuf, State>) -> Vec<PathBuf> {
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    let other = now
        .iter()
        .filter(|(path, state)| before.get(*path) != Some(state))
        .map(|(path, _)| path);
    let mut changed: Vec<PathBuf> = gone.chain(other).cloned().collect();
    changed.sort();
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_gone_or_other_has_changed_and_what_builds_make_has_not() {
        let folder = std::env::temp_dir().join(format!("skillhost-files-{}", std::process::id()));
        fs::create_dir_all(folder.join("dist")).unwrap();
        fs::write(folder.join("same"), "a").unwrap();
        fs::write(folder.join("other"), "a").unwrap();
        fs::write(folder.join("gone"), "a").unwrap();
        let mut files = Files::watch(&folder).unwrap();
        fs::write(folder.join("other"), "ab").unwrap();
        fs::write(folder.join("new"), "a").unwrap();
        fs::remove_file(folder.join("gone")).unwrap();
        fs::write(folder.join("dist/made.wasm"), "a").unwrap();
        fs::write(folder.join("Cargo.lock"), "a").unwrap();
        fs::write(folder.join(".swap"), "a").unwrap();
        let changed = files.next_change();
        let names: Vec<&str> = changed.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["gone", "new", "other"]);
        fs::remove_dir_all(folder).unwrap();
    }
}
