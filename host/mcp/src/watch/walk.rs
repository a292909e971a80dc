//! The order in which folders are visited: tasks, walks through what is in a folder,
//! and turns. A visit itself is `watcher`'s.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::visit::{FileTime, MOST_ENTRIES};

/// The most names of folders that wait for their visit. Guards against: a skill of a
/// million folders.
const MOST_NAMES: usize = MOST_ENTRIES;

/// A folder to visit, with what is in it.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) path: PathBuf,
    /// The number of the configured folder that it is in, and its depth there.
    pub(super) root: usize,
    pub(super) depth: usize,
    /// The depth of the deepest folder to visit.
    pub(super) deepest: usize,
    /// The moment since which changes are looked for.
    pub(super) since: FileTime,
    pub(super) kind: TaskKind,
}

/// The reason for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskKind {
    /// A part of a scan: of the configured folders and skills' own.
    Skills,
    /// A part of a scan: of everything.
    All,
    /// A new folder.
    New,
    /// A place that is looked at in turns.
    Turn,
}

/// A task that goes on.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) task: Task,
    /// Folders that were visited and are not watched.
    pub(super) unwatched: usize,
    /// The folders that were visited and whose folders are not all visited.
    frames: Vec<Frame>,
    /// The names in all frames.
    names: usize,
}

#[derive(Debug)]
struct Frame {
    path: PathBuf,
    names: std::vec::IntoIter<OsString>,
}

/// The folders that are looked at in turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Skills, and roots, that have a folder which is not watched, with the moment of
    /// the last look.
    places: BTreeMap<PathBuf, FileTime>,
    round: Option<Round>,
}

/// A round of turns.
#[derive(Debug)]
struct Round {
    start: Instant,
    /// The place that had its turn last.
    last: Option<PathBuf>,
    /// Folders that were visited and are not watched.
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

    /// Adds the folders in a folder. Returns whether there was room for all.
    pub(super) fn push(&mut self, path: PathBuf, mut names: Vec<OsString>) -> bool {
        let room = MOST_NAMES - self.names;
        let fits = names.len() <= room;
        names.truncate(room);
        self.names += names.len();
        let names = names.into_iter();
        self.frames.push(Frame { path, names });
        fits
    }

    /// Returns the next folder to visit, and its depth.
    pub(super) fn step(&mut self) -> Option<(PathBuf, usize)> {
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

impl Turns {
    /// Adds a place that was looked at now, unless the root that it is in is one.
    pub(super) fn add(&mut self, place: PathBuf, root: &Path, now: FileTime) {
        if !self.places.contains_key(root) {
            self.places.entry(place).or_insert(now);
        }
    }

    /// Returns whether nothing is looked at in turns.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the next place and the moment of the last look at it. `None` at the
    /// end of a round, after which the next one begins.
    pub(super) fn next(&mut self) -> Option<(PathBuf, FileTime)> {
        let round = self.round.get_or_insert_with(|| Round {
            start: Instant::now(),
            last: None,
            unwatched: 0,
        });
        let last = round.last.take();
        let after = last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let places = self
            .places
            .range_mut::<PathBuf, _>((after, Bound::Unbounded));
        let (place, looked) = places.into_iter().next()?;
        round.last = Some(place.clone());
        let since = std::mem::replace(looked, FileTime::now());
        Some((place.clone(), since))
    }

    /// Takes note of the end of a turn.
    pub(super) fn end_turn(&mut self, place: &Path, unwatched: usize) {
        if unwatched == 0 {
            self.places.remove(place);
        }
        if let Some(round) = &mut self.round {
            round.unwatched += unwatched;
        }
    }

    /// Ends a round. Returns the time that it took, and the folders that it found.
    pub(super) fn end_round(&mut self) -> Option<(Duration, usize)> {
        let round = self.round.take()?;
        Some((round.start.elapsed(), round.unwatched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_names_waits() {
        let mut walk = Walk::new(Task {
            path: PathBuf::from("/r"),
            root: 0,
            depth: 0,
            deepest: 9,
            since: FileTime::now(),
            kind: TaskKind::New,
        });
        let names = |count| vec![OsString::from("a"); count];
        assert!(walk.push(PathBuf::from("/r"), names(MOST_NAMES - 1)));
        assert!(walk.push(PathBuf::from("/r/b"), names(1)));
        assert!(!walk.push(PathBuf::from("/r/b/a"), names(2)));
        // Each that is visited makes room for another.
        assert_eq!(walk.step(), Some((PathBuf::from("/r/b/a"), 2)));
        assert!(walk.push(PathBuf::from("/r/b/a"), names(1)));
        let left = std::iter::from_fn(|| walk.step()).count();
        assert_eq!(left, MOST_NAMES);
    }
}
