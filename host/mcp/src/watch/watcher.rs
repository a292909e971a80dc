//! The thread that notices changes. It scans the configured folders once, skills'
//! own folders before those in them, and asks the kernel to report changes in each.
//! Folders for which there is no watch are looked at in turns.
//!
//! Each folder is watched by itself, and symlinks in a skill are not followed, so the
//! contents of a skill decide neither where this looks nor how much it keeps.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use skillhost::Line;

use super::configured::{ConfiguredFolders, Holds};
use super::inotify::{FolderEvent, ReadFlags};
use super::pending::PendingChanges;
use super::visit::{FileTime, FolderId, MOST_ENTRIES, OpenFolder, time_of_thread};
use super::walk::{Task, TaskKind, Turns, Walk};
use super::watches::{WatchBound, WatchState, Watches};
use crate::live::FolderCounts;

#[cfg(test)]
mod tests;

/// The time between checks that the configured folders were not replaced: there is
/// no event for that. Also the time between two rounds of turns.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The depth of the deepest folder of a root that is looked at.
const MOST_DEPTH: usize = 16;

/// The most new folders that wait for a visit. Beyond it, everything is scanned
/// again. Guards against: folders that are made faster than they are visited.
const MOST_TASKS: usize = 16_384;

/// The longest time of work between looks at the kernel's events.
const SLICE: Duration = Duration::from_millis(2);

/// The time of rest after work, as a multiple of its processor time: none in the first scan,
/// half of a thread's time in later ones, 95 % of it between turns.
const REST_OF_SCAN: u32 = 1;
const REST_OF_TURN: u32 = 19;

/// The priority of the thread: requests come before the first scan.
const NICENESS: i32 = 10;

/// The state of the thread.
pub(super) struct Watcher {
    configured: Arc<ConfiguredFolders>,
    changes: Arc<PendingChanges>,
    watches: Watches,
    /// The configured folders, as they were found last.
    roots: Vec<Option<FolderId>>,
    tasks: VecDeque<Task>,
    walk: Option<Walk>,
    turns: Turns,
    /// The tasks of a scan that are left.
    scans: usize,
    /// Folders that the last scan, or round of turns, found and that are not watched.
    unwatched: usize,
    /// The moment since which events were lost.
    lost: Option<FileTime>,
    /// True once the first scan has ended.
    scanned: bool,
    /// The operator's knowledge of folders that are not watched.
    warned: Warned,
    /// True once a warning of too many entries was logged.
    warned_of_cut: bool,
    publish: Box<dyn Fn(FolderCounts) + Send>,
}

/// The warnings of folders that are not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warned {
    Nothing,
    OfTurns,
    OfTime,
}

impl Watcher {
    /// Starts to watch: changes from here on are noticed, once it [runs](Self::run).
    pub(super) fn new(
        configured: Arc<ConfiguredFolders>,
        changes: Arc<PendingChanges>,
        bound: WatchBound,
        publish: impl Fn(FolderCounts) + Send + 'static,
    ) -> io::Result<Self> {
        let mut watcher = Self {
            configured,
            changes,
            watches: Watches::new(bound)?,
            roots: Vec::new(),
            tasks: VecDeque::new(),
            walk: None,
            turns: Turns::default(),
            scans: 0,
            unwatched: 0,
            lost: None,
            scanned: false,
            warned: Warned::Nothing,
            warned_of_cut: false,
            publish: Box::new(publish),
        };
        watcher.scan_all(FileTime::now());
        Ok(watcher)
    }

    /// Notices changes until something is written to `stop`.
    pub(super) fn run(mut self, stop: &OwnedFd) {
        // Of this thread alone. It fails nowhere that matters.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let mut next_check = Instant::now() + CHECK_INTERVAL;
        let mut next_work = Instant::now();
        loop {
            let until = match self.has_work() {
                true => next_work.min(next_check),
                false => next_check,
            };
            let wait = until.saturating_duration_since(Instant::now());
            match self.wait(stop, wait) {
                Ok((true, _)) => return,
                Ok((false, true)) => self.read_events(),
                Ok((false, false)) => {}
                Err(error) => {
                    tracing::error!("changes in folders are no longer noticed: {error}");
                    return;
                }
            }
            let now = Instant::now();
            if now >= next_check {
                next_check = now + CHECK_INTERVAL;
                self.check_roots();
            }
            if now >= next_work && self.has_work() {
                next_work = self.work();
            }
        }
    }

    /// Waits. Returns whether to stop, and whether there are events.
    fn wait(&self, stop: &OwnedFd, wait: Duration) -> Result<(bool, bool), Errno> {
        let wait = Timespec::try_from(wait).map_err(|_| Errno::INVAL)?;
        let mut files = [
            PollFd::new(stop, PollFlags::IN),
            PollFd::new(&self.watches, PollFlags::IN),
        ];
        match poll(&mut files, Some(&wait)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((false, false)),
            Err(error) => return Err(error),
        }
        let [stop, events] = files.map(|file| !file.revents().is_empty());
        Ok((stop, events))
    }

    /// Begins a scan of the configured folders: first of skills' own folders, so that
    /// those are watched, whatever is in them.
    fn scan_all(&mut self, since: FileTime) {
        let roots = &self.configured.roots;
        self.roots = roots.iter().map(|root| FolderId::of(&root.path)).collect();
        self.walk = None;
        self.turns = Turns::default();
        self.unwatched = 0;
        self.tasks.clear();
        for kind in [TaskKind::Skills, TaskKind::All] {
            for (number, root) in roots.iter().enumerate() {
                self.tasks.push_back(Task {
                    path: root.path.clone(),
                    root: number,
                    depth: 0,
                    deepest: match (root.holds, kind) {
                        (Holds::Tools, _) => 0,
                        (Holds::Skills { depth, .. }, TaskKind::Skills) => depth,
                        (Holds::Skills { .. }, _) => MOST_DEPTH,
                    },
                    since,
                    kind,
                });
            }
        }
        self.scans = self.tasks.len();
    }

    /// Starts again with a new list of watches: what is known may be wrong.
    fn start_again(&mut self, since: FileTime) {
        match Watches::new(self.watches.bound()) {
            Ok(watches) => self.watches = watches,
            Err(error) => tracing::error!("changes in folders may be missed: {error}"),
        }
        self.scan_all(since);
    }

    /// Scans everything if a configured folder was replaced, or events were lost.
    fn check_roots(&mut self) {
        let roots = self.configured.roots.iter().zip(&self.roots);
        let moved = roots.filter(|(root, known)| FolderId::of(&root.path) != **known);
        if moved.count() > 0 {
            self.start_again(FileTime::now());
            self.changes.record_moved();
        } else if let Some(since) = self.lost.take() {
            self.start_again(since);
        }
    }

    fn read_events(&mut self) {
        let since = FileTime::now();
        let mut events = Vec::new();
        self.watches.read(|event| events.push(event));
        let mut moved = BTreeSet::new();
        for event in events {
            self.take_event(event, since, &mut moved);
        }
        if self.tasks.len() > MOST_TASKS {
            self.tasks.retain(|task| task.kind != TaskKind::New);
            self.lost.get_or_insert(since);
        }
        if !moved.is_empty() {
            self.watches.remove_below(&moved);
        }
    }

    /// Takes in an event. Adds a folder that was moved elsewhere to `moved`.
    fn take_event(&mut self, event: FolderEvent, since: FileTime, moved: &mut BTreeSet<PathBuf>) {
        if event.what.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.lost.get_or_insert(since);
            self.changes.record_all();
            return;
        }
        if event.what.contains(ReadFlags::IGNORED) {
            self.watches.forget(event.watch);
            return;
        }
        let Some(folder) = self.watches.get(event.watch) else {
            return;
        };
        let Some(name) = event.name else {
            self.changes.record(&folder.path);
            return;
        };
        let path = folder.path.join(&name);
        self.changes.record(&path);
        let (root, depth) = (folder.root, folder.depth + 1);
        let holds = self.configured.roots[root].holds;
        let is_folder = event.what.contains(ReadFlags::ISDIR);
        let comes = ReadFlags::CREATE | ReadFlags::MOVED_TO;
        if is_folder && event.what.contains(ReadFlags::MOVED_FROM) {
            moved.insert(path);
        } else if event.what.intersects(comes)
            && (is_folder || holds.follows_links(depth))
            && depth <= MOST_DEPTH
            && holds.looks_into(&name, depth)
        {
            self.tasks.push_back(Task {
                path,
                root,
                depth,
                deepest: MOST_DEPTH,
                since,
                kind: TaskKind::New,
            });
        }
    }

    pub(super) fn has_work(&self) -> bool {
        self.walk.is_some() || !self.tasks.is_empty() || !self.turns.is_empty()
    }

    /// Works for a slice of time. Returns when to go on.
    pub(super) fn work(&mut self) -> Instant {
        let (start, busy) = (Instant::now(), time_of_thread());
        let mut rest = match self.scanned {
            true => REST_OF_SCAN,
            false => 0,
        };
        while start.elapsed() < SLICE {
            let Some(mut walk) = self.walk.take().or_else(|| self.next_walk()) else {
                // A round of turns has ended.
                return start + CHECK_INTERVAL;
            };
            if walk.task.kind == TaskKind::Turn {
                rest = REST_OF_TURN;
            }
            match walk.step() {
                Some((path, depth)) => {
                    self.visit(&mut walk, path, depth);
                    self.walk = Some(walk);
                }
                None => self.end(&walk),
            }
            if !self.has_work() {
                break;
            }
        }
        Instant::now() + time_of_thread().saturating_sub(busy) * rest
    }

    /// Begins the next task. `None` at the end of a round of turns.
    fn next_walk(&mut self) -> Option<Walk> {
        let task = match self.tasks.pop_front() {
            Some(task) => task,
            None => self.next_turn()?,
        };
        let (path, depth) = (task.path.clone(), task.depth);
        let mut walk = Walk::new(task);
        self.visit(&mut walk, path, depth);
        Some(walk)
    }

    /// Returns the task to look at the next place. `None` at the end of a round.
    fn next_turn(&mut self) -> Option<Task> {
        let Some((path, since)) = self.turns.next() else {
            if let Some((took, unwatched)) = self.turns.end_round() {
                self.unwatched = unwatched;
                self.report(Some(took));
            }
            return None;
        };
        let mut roots = self.configured.roots.iter();
        let root = roots.position(|root| path.starts_with(&root.path))?;
        let inside = path.strip_prefix(&self.configured.roots[root].path);
        Some(Task {
            depth: inside.map_or(0, |inside| inside.components().count()),
            path,
            root,
            deepest: MOST_DEPTH,
            since,
            kind: TaskKind::Turn,
        })
    }

    /// Takes note of the end of a task.
    fn end(&mut self, walk: &Walk) {
        match walk.task.kind {
            TaskKind::Turn => self.turns.end_turn(&walk.task.path, walk.unwatched),
            TaskKind::New => {
                self.unwatched += walk.unwatched;
                self.publish();
            }
            TaskKind::Skills | TaskKind::All => {
                if walk.task.kind == TaskKind::All {
                    self.unwatched += walk.unwatched;
                }
                self.scans -= 1;
                if self.scans == 0 {
                    self.scanned = true;
                    self.report(None);
                }
            }
        }
    }

    /// Looks at a folder, watches it if there is room, and lists the folders in it.
    fn visit(&mut self, walk: &mut Walk, path: PathBuf, depth: usize) {
        let root = walk.task.root;
        let holds = self.configured.roots[root].holds;
        let now = FileTime::now();
        let Some(open) = OpenFolder::open(&path, holds.follows_links(depth)) else {
            return;
        };
        let state = self.watches.add(&open, &path, root, depth);
        if state == WatchState::Unwatched {
            walk.unwatched += 1;
            let place = self.place_of(&path, root);
            self.turns
                .add(place, &self.configured.roots[root].path, now);
        }
        // Read after it is watched, so that no change is missed. Events report what
        // changes in a folder that was watched before.
        let since = (state != WatchState::Old).then_some(walk.task.since);
        let deeper = depth < walk.task.deepest;
        let mut contents = open.read(since, deeper && holds.follows_links(depth + 1));
        if let Some(changed) = contents.changed {
            match changed.is_empty() {
                true => self.changes.record(&path),
                false => self.changes.record(&path.join(changed)),
            }
        }
        if contents.cut {
            self.warn_of_cut(&path);
        }
        if deeper {
            let names = &mut contents.folders;
            names.retain(|name| holds.looks_into(name, depth + 1));
            if !walk.push(path, contents.folders) {
                self.warn_of_cut(&walk.task.path);
            }
        }
    }

    /// Returns the folder of the root that this path is in, or the root.
    fn place_of(&self, path: &Path, root: usize) -> PathBuf {
        let root = &self.configured.roots[root].path;
        let inside = path.strip_prefix(root).ok();
        match inside.and_then(|inside| inside.components().next()) {
            Some(first) => root.join(first),
            None => root.clone(),
        }
    }

    /// Publishes how many folders are watched.
    fn publish(&self) -> FolderCounts {
        let counts = FolderCounts {
            watched: self.watches.len(),
            in_turns: self.unwatched,
        };
        (self.publish)(counts);
        counts
    }

    /// Tells the operator how many folders are watched, at the end of a scan or of a
    /// round of turns, which took so long.
    fn report(&mut self, round: Option<Duration>) {
        let FolderCounts { watched, in_turns } = self.publish();
        match round {
            None if in_turns == 0 => {
                tracing::info!("{watched} folders are watched for changes");
            }
            None if self.warned == Warned::Nothing => {
                self.warned = Warned::OfTurns;
                tracing::warn!(
                    "{watched} folders are watched for changes, and {in_turns} more are looked at \
                     in turns: {}",
                    self.watches.bound().reason(),
                );
            }
            Some(_) if in_turns == 0 => self.warned = Warned::Nothing,
            Some(round) if self.warned == Warned::OfTurns => {
                self.warned = Warned::OfTime;
                tracing::warn!(
                    "a look at the {in_turns} folders that are not watched takes {:.1} seconds: \
                     changes there show after that time at most",
                    (round + CHECK_INTERVAL).as_secs_f64(),
                );
            }
            _ => {}
        }
    }

    fn warn_of_cut(&mut self, path: &Path) {
        if !self.warned_of_cut {
            tracing::warn!(
                "`{}` has more than {MOST_ENTRIES} entries; changes in the rest are not noticed",
                Line::new(path.display())
            );
        }
        self.warned_of_cut = true;
    }
}
