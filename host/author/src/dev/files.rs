//! Watches the files of a project, except those that a build makes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use notify::{Config, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};

/// The time without a change before a build starts, because an editor saves in several steps.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// The maximum time to wait for changes to end.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(2);

/// The interval of scans without an event, because some mounts report no events.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of files in a project. Guards against: a project in a home folder.
const MAX_FILES: usize = 20_000;

/// The maximum depth of folders.
const MAX_DEPTH: usize = 16;

/// The folders that builds create.
const BUILD_FOLDERS: [&str; 5] = ["build", "dist", "target", "node_modules", "__pycache__"];

/// The lock file, which a build may write.
const LOCK: &str = "Cargo.lock";

/// A file's modification time and size.
type FileStamp = (SystemTime, u64);

/// The files of a project, as of the last scan.
pub(super) struct ProjectFiles {
    folder: PathBuf,
    stamps: BTreeMap<PathBuf, FileStamp>,
    watcher: Option<RecommendedWatcher>,
    events: Receiver<()>,
}

impl ProjectFiles {
    /// Starts to watch a folder.
    pub(super) fn watch(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder
            .canonicalize()
            .with_context(|| format!("cannot use the folder `{}`", folder.display()))?;
        // One waiting event is enough, because it only starts a scan.
        let (sender, events) = sync_channel(1);
        let watcher = RecommendedWatcher::new(
            move |_| {
                // The channel may be full or closed.
                let _ = sender.try_send(());
            },
            Config::default().with_event_kinds(EventKindMask::CORE),
        );
        let mut files = Self {
            folder,
            stamps: BTreeMap::new(),
            watcher: watcher.ok(),
            events,
        };
        files.stamps = files.scan();
        Ok(files)
    }

    /// Waits for a change, and returns the changed files.
    pub(super) fn next_change(&mut self) -> Vec<PathBuf> {
        let mut first_change = None;
        loop {
            let now = self.scan();
            let changed = changed(&self.stamps, &now);
            if !changed.is_empty() {
                // A file may be only half saved.
                let start = first_change.get_or_insert_with(Instant::now);
                if start.elapsed() < MAX_SETTLE_TIME
                    && self.events.recv_timeout(SETTLE_TIME).is_ok()
                {
                    continue;
                }
                self.stamps = now;
                return changed;
            }
            match self.events.recv_timeout(SCAN_INTERVAL) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                // Without a watcher there are no events.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(SCAN_INTERVAL),
            }
        }
    }

    /// Returns the project's files, and watches their folders.
    fn scan(&mut self) -> BTreeMap<PathBuf, FileStamp> {
        let mut stamps = BTreeMap::new();
        let mut folders = vec![(self.folder.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            if let Some(watcher) = &mut self.watcher {
                // Watching a folder twice does no harm. Folders that cannot be watched are scanned.
                let _ = watcher.watch(&folder, RecursiveMode::NonRecursive);
            }
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if stamps.len() >= MAX_FILES || name.starts_with('.') || name.ends_with('~') {
                    continue;
                }
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if metadata.is_dir() {
                    let is_built =
                        depth == 0 && BUILD_FOLDERS.contains(&&*name) || name == "__pycache__";
                    if !is_built && depth < MAX_DEPTH {
                        folders.push((entry.path(), depth + 1));
                    }
                } else if let Ok(path) = entry.path().strip_prefix(&self.folder)
                    && path != Path::new(LOCK)
                {
                    let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    stamps.insert(path.to_owned(), (time, metadata.len()));
                }
            }
        }
        stamps
    }
}

/// Returns the files that are new, modified or removed, sorted.
fn changed(
    before: &BTreeMap<PathBuf, FileStamp>,
    now: &BTreeMap<PathBuf, FileStamp>,
) -> Vec<PathBuf> {
    let removed = before.keys().filter(|path| !now.contains_key(*path));
    let new_or_modified = now
        .iter()
        .filter(|(path, stamp)| before.get(*path) != Some(stamp))
        .map(|(path, _)| path);
    let mut changed: Vec<PathBuf> = removed.chain(new_or_modified).cloned().collect();
    changed.sort();
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_changes_except_build_outputs() {
        let folder = std::env::temp_dir().join(format!("skillhost-files-{}", std::process::id()));
        fs::create_dir_all(folder.join("dist")).unwrap();
        fs::write(folder.join("same"), "a").unwrap();
        fs::write(folder.join("other"), "a").unwrap();
        fs::write(folder.join("gone"), "a").unwrap();
        let mut files = ProjectFiles::watch(&folder).unwrap();
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
