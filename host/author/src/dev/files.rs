//! Watches the files of a project, except those that a build makes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use skillhost_skills::broker::Opener;
use skillhost_skills::inotify::Inotify;

/// The time without a change before a build starts, because an editor saves in several steps.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// The maximum time to wait for changes to end.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(2);

/// The interval of scans while no events arrive, because some mounts report none.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of files to watch. Guards against: a project in a home folder.
const MAX_FILES: usize = 20_000;

/// The maximum depth of folders.
const MAX_DEPTH: usize = 16;

/// The folders that builds create.
const BUILD_FOLDERS: [&str; 5] = ["build", "dist", "target", "node_modules", "__pycache__"];

/// Cargo's lock file, which a build may write.
const LOCK: &str = "Cargo.lock";

/// A file's modification time and size.
type FileStamp = (SystemTime, u64);

/// The files of a project, as of the last scan.
pub(super) struct ProjectFiles {
    folder: PathBuf,
    stamps: BTreeMap<PathBuf, FileStamp>,
    /// Reports changes in the folders of the last scan. `None` if the user has too many inotify
    /// instances.
    inotify: Option<Inotify>,
}

impl ProjectFiles {
    /// Starts to watch a folder.
    pub(super) fn watch(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder
            .canonicalize()
            .with_context(|| format!("cannot use the folder `{}`", folder.display()))?;
        let mut files = Self {
            folder,
            stamps: BTreeMap::new(),
            inotify: Inotify::new(Opener::DIRECT).ok(),
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
                if start.elapsed() < MAX_SETTLE_TIME && self.wait(SETTLE_TIME) {
                    continue;
                }
                self.stamps = now;
                return changed;
            }
            self.wait(SCAN_INTERVAL);
        }
    }

    /// Waits for an event for at most `time`. Returns `false` if there was none.
    fn wait(&self, time: Duration) -> bool {
        let Some(inotify) = &self.inotify else {
            std::thread::sleep(time);
            return false;
        };
        let timeout = Timespec::try_from(time).ok();
        let mut fds = [PollFd::new(inotify, PollFlags::IN)];
        let _ = retry_on_intr(|| poll(&mut fds, timeout.as_ref()));
        // Every event only starts a scan, so its content does not matter.
        inotify.read(drop)
    }

    /// Returns the project's files, and watches their folders.
    fn scan(&self) -> BTreeMap<PathBuf, FileStamp> {
        let mut stamps = BTreeMap::new();
        let mut folders = vec![(self.folder.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            if let Some(inotify) = &self.inotify
                && let Ok(handle) = File::open(&folder)
            {
                // Watching a folder twice does no harm. A folder that cannot be watched is still
                // scanned.
                let _ = inotify.add(handle.as_fd());
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

    #[test]
    fn waits_for_events_in_folders_of_the_last_scan() {
        let folder = tempfile::tempdir().unwrap();
        let files = ProjectFiles::watch(folder.path()).unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        files.scan();
        while files.wait(Duration::ZERO) {}
        fs::write(inner.join("new"), "a").unwrap();
        assert!(files.wait(Duration::from_secs(60)));
    }
}
