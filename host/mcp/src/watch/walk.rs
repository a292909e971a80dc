//! The order in which folders are visited. A walk visits a folder and everything in it, as one
//! task; a round of polling visits all polled folders. `watcher` makes the visits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::visit::{FileTime, MAX_ENTRIES};

/// The maximum number of names of folders that are still to visit. Guards against: a skill with a
/// million folders.
const MAX_NAMES: usize = MAX_ENTRIES;

/// A folder to visit, with the folders in it.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) path: PathBuf,
    /// The index of the configured folder that it is in.
    pub(super) root: usize,
    /// Its depth in the configured folder.
    pub(super) depth: usize,
    /// The depth of the deepest folder to visit.
    pub(super) max_depth: usize,
    /// The time since which changes are looked for.
    pub(super) since: FileTime,
    pub(super) kind: TaskKind,
}

/// The reason for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskKind {
    /// A part of a scan of the configured folders and of skills' folders.
    SkillFolders,
    /// A part of a scan of all folders.
    AllFolders,
    /// A new folder.
    NewFolder,
    /// A folder that is polled.
    Poll,
}

/// A task in progress.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) task: Task,
    /// The number of visited folders that are not watched.
    pub(super) unwatched: usize,
    /// The visited folders that still have subfolders to visit.
    frames: Vec<Frame>,
    /// The number of names in all frames.
    names: usize,
}

#[derive(Debug)]
struct Frame {
    path: PathBuf,
    names: std::vec::IntoIter<OsString>,
}

/// The folders that are polled.
#[derive(Debug, Default)]
pub(super) struct Polling {
    /// Skills and roots with a folder that is not watched, each with the time of its last visit.
    folders: BTreeMap<PathBuf, FileTime>,
    round: Option<Round>,
}

/// A visit of all polled folders.
#[derive(Debug)]
struct Round {
    start: Instant,
    /// The folder that was visited last.
    last: Option<PathBuf>,
    /// The number of visited folders that are not watched.
    unwatched: usize,
}

impl Walk {
    pub(super) fn new(task: Task) -> Self {
        Self {
            task,
            unwatched: 0,
            frames: Vec::new(),
            names: 0,
        }
    }

    /// Adds the subfolders of a folder. Returns false if it drops some of them because of the
    /// limit.
    pub(super) fn push(&mut self, path: PathBuf, mut names: Vec<OsString>) -> bool {
        let left = MAX_NAMES - self.names;
        let fits = names.len() <= left;
        names.truncate(left);
        self.names += names.len();
        let names = names.into_iter();
        self.frames.push(Frame { path, names });
        fits
    }

    /// Returns the next folder to visit, and its depth.
    pub(super) fn next_folder(&mut self) -> Option<(PathBuf, usize)> {
        loop {
            let depth = self.task.depth + self.frames.len();
            let frame = self.frames.last_mut()?;
            if let Some(name) = frame.names.next() {
                self.names -= 1;
                return Some((frame.path.join(name), depth));
            }
            self.frames.pop();
        }
    }
}

impl Polling {
    /// Adds a folder that was just visited, unless its root is polled.
    pub(super) fn add(&mut self, folder: PathBuf, root: &Path, now: FileTime) {
        if !self.folders.contains_key(root) {
            self.folders.entry(folder).or_insert(now);
        }
    }

    /// Returns whether no folder is polled, and no round has to end.
    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.round.is_none()
    }

    /// Returns the next folder to visit, and the time of its last visit. Returns `None` at the
    /// end of a round; the next call begins another one.
    pub(super) fn next(&mut self) -> Option<(PathBuf, FileTime)> {
        let round = self.round.get_or_insert_with(|| Round {
            start: Instant::now(),
            last: None,
            unwatched: 0,
        });
        let last = round.last.take();
        let after = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut folders = self
            .folders
            .range_mut::<PathBuf, _>((after, Bound::Unbounded));
        let (folder, last_visit) = folders.next()?;
        round.last = Some(folder.clone());
        let since = std::mem::replace(last_visit, FileTime::now());
        Some((folder.clone(), since))
    }

    /// Records the end of a visit. Stops polling the folder if all folders in it are watched.
    pub(super) fn end_visit(&mut self, folder: &Path, unwatched: usize) {
        if unwatched == 0 {
            self.folders.remove(folder);
        }
        if let Some(round) = &mut self.round {
            round.unwatched += unwatched;
        }
    }

    /// Ends a round. Returns its duration, and the number of unwatched folders.
    pub(super) fn end_round(&mut self) -> Option<(Duration, usize)> {
        let round = self.round.take()?;
        Some((round.start.elapsed(), round.unwatched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_waiting_names() {
        let mut walk = Walk::new(Task {
            path: PathBuf::from("/r"),
            root: 0,
            depth: 0,
            max_depth: 9,
            since: FileTime::now(),
            kind: TaskKind::NewFolder,
        });
        let names = |count| vec![OsString::from("a"); count];
        assert!(walk.push(PathBuf::from("/r"), names(MAX_NAMES - 1)));
        assert!(walk.push(PathBuf::from("/r/b"), names(1)));
        assert!(!walk.push(PathBuf::from("/r/b/a"), names(2)));
        // After each visit, another name fits.
        assert_eq!(walk.next_folder(), Some((PathBuf::from("/r/b/a"), 2)));
        assert!(walk.push(PathBuf::from("/r/b/a"), names(1)));
        let left = std::iter::from_fn(|| walk.next_folder()).count();
        assert_eq!(left, MAX_NAMES);
    }
}
