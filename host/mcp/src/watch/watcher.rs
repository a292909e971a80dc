//! The thread that notices changes. It scans the configured folders once, skills' folders before
//! their subfolders, and asks the kernel to report changes in each. Folders beyond the limit on
//! watches are polled.
//!
//! Each folder is watched by itself, and symlinks in a skill are not followed. So a skill cannot
//! lead the watcher to other folders, and limits bound its memory.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use skillhost::Line;
use skillhost_skills::inotify::{FolderEvent, ReadFlags};
use skillhost_skills::text::count::count;

use super::configured::{ConfiguredFolders, RootKind};
use super::pending::PendingChanges;
use super::visit::{FileTime, FolderId, MAX_ENTRIES, OpenFolder, thread_time};
use super::walk::{Polling, Task, TaskKind, Walk};
use super::watches::{WatchLimit, WatchState, Watches};
use crate::live::FolderCounts;
use crate::watched_file::WatchedFile;

#[cfg(test)]
mod tests;

/// The time between two checks of whether a configured folder was replaced. The kernel reports no
/// event for that. Also the time between two rounds of polling.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The depth of the deepest folder that is visited in a root.
const MAX_DEPTH: usize = 16;

/// The maximum number of new folders that wait for a visit. If there are more, everything is
/// scanned again. Guards against: folders that are created faster than they are visited.
const MAX_TASKS: usize = 16_384;

/// The longest time of work before the kernel's events are read again.
const WORK_SLICE: Duration = Duration::from_millis(2);

/// The pause after a part of a scan, as a multiple of its processor time: scans take half of
/// a thread. The first scan has no pauses.
const SCAN_PAUSE_FACTOR: u32 = 1;

/// The pause after a part of a round of polling, as a multiple of its processor time: polling
/// takes a twentieth of a thread.
const POLL_PAUSE_FACTOR: u32 = 19;

/// The priority of the thread, which is lower than that of requests.
const NICENESS: i32 = 10;

/// The state of the thread.
pub(super) struct Watcher {
    configured: Arc<ConfiguredFolders>,
    changes: Arc<PendingChanges>,
    watches: Watches,
    /// The identities of the configured folders at the last check.
    roots: Vec<Option<FolderId>>,
    /// The files of settings that are read again.
    files: Vec<WatchedFile>,
    tasks: VecDeque<Task>,
    walk: Option<Walk>,
    polling: Polling,
    /// The number of remaining tasks of a scan.
    scan_tasks: usize,
    /// The number of folders that are not watched, by the last scan or round of polling.
    unwatched: usize,
    /// The time since which events were lost.
    lost_since: Option<FileTime>,
    /// True once the first scan has ended.
    has_scanned: bool,
    /// The last warning about folders that are not watched.
    last_warning: Warning,
    /// True once a warning about too many entries was logged.
    has_warned_of_cut: bool,
    publish: Box<dyn Fn(FolderCounts) + Send>,
}

/// A warning about folders that are not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warning {
    Nothing,
    /// The warning that folders are polled.
    Polling,
    /// The warning that polling takes long.
    RoundTime,
}

impl Watcher {
    /// Returns a watcher. Once it [runs](Self::run), it notices every change since this call.
    pub(super) fn new(
        configured: Arc<ConfiguredFolders>,
        changes: Arc<PendingChanges>,
        limit: WatchLimit,
        publish: impl Fn(FolderCounts) + Send + 'static,
    ) -> io::Result<Self> {
        let mut watcher = Self {
            watches: Watches::new(limit, configured.opener.clone())?,
            configured,
            changes,
            roots: Vec::new(),
            files: Vec::new(),
            tasks: VecDeque::new(),
            walk: None,
            polling: Polling::default(),
            scan_tasks: 0,
            unwatched: 0,
            lost_since: None,
            has_scanned: false,
            last_warning: Warning::Nothing,
            has_warned_of_cut: false,
            publish: Box::new(publish),
        };
        watcher.scan_all(FileTime::now());
        Ok(watcher)
    }

    /// Notices changes of these files too.
    pub(super) fn with_files(mut self, files: Vec<WatchedFile>) -> Self {
        self.files = files;
        self
    }

    /// Notices changes until something is written to `stop`.
    pub(super) fn run(mut self, stop: &OwnedFd) {
        // Lowers the priority of this thread only. If that fails, the thread competes with others.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let mut next_check = Instant::now() + CHECK_INTERVAL;
        let mut next_work = Instant::now();
        loop {
            let until = if self.has_work() {
                next_work.min(next_check)
            } else {
                next_check
            };
            let wait = until.saturating_duration_since(Instant::now());
            match self.wait(stop, wait) {
                Ok((true, _)) => return,
                Ok((false, true)) => self.read_events(),
                Ok((false, false)) => {}
                Err(error) => {
                    tracing::error!("cannot notice changes in folders any more: {error}");
                    return;
                }
            }
            let now = Instant::now();
            if now >= next_check {
                next_check = now + CHECK_INTERVAL;
                self.check_roots();
                self.check_files();
            }
            if now >= next_work && self.has_work() {
                next_work = self.work();
            }
        }
    }

    /// Waits for events, at most this time. Returns whether something was written to `stop`, and
    /// whether there are events.
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

    /// Begins a scan of the configured folders. Skills' folders come before their
    /// subfolders, so that many subfolders do not use up the limit on watches.
    fn scan_all(&mut self, since: FileTime) {
        let roots = &self.configured.roots;
        self.roots = roots.iter().map(|root| FolderId::at(&root.path)).collect();
        self.walk = None;
        self.polling = Polling::default();
        self.unwatched = 0;
        self.tasks.clear();
        for kind in [TaskKind::SkillFolders, TaskKind::AllFolders] {
            for (index, root) in roots.iter().enumerate() {
                self.tasks.push_back(Task {
                    path: root.path.clone(),
                    root: index,
                    depth: 0,
                    max_depth: match (root.kind, kind) {
                        (RootKind::Tools, _) => 0,
                        (RootKind::Skills { depth, .. }, TaskKind::SkillFolders) => depth,
                        (RootKind::Skills { .. }, _) => MAX_DEPTH,
                    },
                    since,
                    kind,
                });
            }
        }
        self.scan_tasks = self.tasks.len();
    }

    /// Starts again with new watches, because the known ones may be wrong.
    fn restart(&mut self, since: FileTime) {
        match Watches::new(self.watches.limit(), self.configured.opener.clone()) {
            Ok(watches) => self.watches = watches,
            Err(error) => tracing::error!(
                "cannot renew the watches, so changes in folders may be missed: {error}"
            ),
        }
        self.scan_all(since);
    }

    /// Scans everything if a configured folder was replaced, or events were lost.
    fn check_roots(&mut self) {
        let roots = self.configured.roots.iter().zip(&self.roots);
        let mut identities = roots.map(|(root, known)| (FolderId::at(&root.path), *known));
        if identities.any(|(current, known)| current != known) {
            self.restart(FileTime::now());
            self.changes.record_replaced_root();
        } else if let Some(since) = self.lost_since.take() {
            self.restart(since);
        }
    }

    fn check_files(&mut self) {
        let changed = self.files.iter_mut().map(WatchedFile::has_changed);
        // Checks every file, so that changes of several files are recorded once.
        if changed.fold(false, |any, changed| any | changed) {
            self.changes.record_settings();
        }
    }

    fn read_events(&mut self) {
        let since = FileTime::now();
        let mut events = Vec::new();
        self.watches.read(|event| events.push(event));
        let mut moved_away = BTreeSet::new();
        for event in events {
            self.handle_event(event, since, &mut moved_away);
        }
        if self.tasks.len() > MAX_TASKS {
            self.tasks.retain(|task| task.kind != TaskKind::NewFolder);
            self.lost_since.get_or_insert(since);
        }
        if !moved_away.is_empty() {
            self.watches.remove_all(&moved_away);
        }
    }

    /// Handles an event. Adds a folder that was moved away to `moved_away`.
    fn handle_event(
        &mut self,
        event: FolderEvent,
        since: FileTime,
        moved_away: &mut BTreeSet<PathBuf>,
    ) {
        if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.lost_since.get_or_insert(since);
            self.changes.record_all();
            return;
        }
        if event.flags.contains(ReadFlags::IGNORED) {
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
        let root_kind = self.configured.roots[root].kind;
        let is_folder = event.flags.contains(ReadFlags::ISDIR);
        let added = ReadFlags::CREATE | ReadFlags::MOVED_TO;
        if is_folder && event.flags.contains(ReadFlags::MOVED_FROM) {
            moved_away.insert(path);
        } else if event.flags.intersects(added)
            && (is_folder || root_kind.follows_links(depth))
            && depth <= MAX_DEPTH
            && root_kind.watches_folder(&name, depth)
        {
            self.tasks.push_back(Task {
                path,
                root,
                depth,
                max_depth: MAX_DEPTH,
                since,
                kind: TaskKind::NewFolder,
            });
        }
    }

    /// Returns whether a folder waits for its visit.
    pub(super) fn has_work(&self) -> bool {
        self.walk.is_some() || !self.tasks.is_empty() || !self.polling.is_empty()
    }

    /// Visits folders for a slice of time. Returns the time at which to continue.
    pub(super) fn work(&mut self) -> Instant {
        let (start, start_busy) = (Instant::now(), thread_time());
        let mut pause_factor = if self.has_scanned {
            SCAN_PAUSE_FACTOR
        } else {
            0
        };
        while start.elapsed() < WORK_SLICE {
            let Some(mut walk) = self.walk.take().or_else(|| self.next_walk()) else {
                // A round of polling has ended.
                return start + CHECK_INTERVAL;
            };
            if walk.task.kind == TaskKind::Poll {
                pause_factor = POLL_PAUSE_FACTOR;
            }
            match walk.next_folder() {
                Some((path, depth)) => {
                    self.visit(&mut walk, path, depth);
                    self.walk = Some(walk);
                }
                None => self.end_task(&walk),
            }
            if !self.has_work() {
                break;
            }
        }
        Instant::now() + thread_time().saturating_sub(start_busy) * pause_factor
    }

    /// Begins the next task. Returns `None` at the end of a round of polling.
    fn next_walk(&mut self) -> Option<Walk> {
        let task = match self.tasks.pop_front() {
            Some(task) => task,
            None => self.next_poll()?,
        };
        let (path, depth) = (task.path.clone(), task.depth);
        let mut walk = Walk::new(task);
        self.visit(&mut walk, path, depth);
        Some(walk)
    }

    /// Returns the task to poll the next folder, or `None` at the end of a round.
    fn next_poll(&mut self) -> Option<Task> {
        let Some((path, since)) = self.polling.next() else {
            if let Some((round_time, unwatched)) = self.polling.end_round() {
                self.unwatched = unwatched;
                self.report(Some(round_time));
                self.watches.resume();
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
            max_depth: MAX_DEPTH,
            since,
            kind: TaskKind::Poll,
        })
    }

    /// Records the end of a task.
    fn end_task(&mut self, walk: &Walk) {
        match walk.task.kind {
            TaskKind::Poll => self.polling.end_visit(&walk.task.path, walk.unwatched),
            TaskKind::NewFolder => {
                self.unwatched += walk.unwatched;
                self.publish();
            }
            TaskKind::SkillFolders | TaskKind::AllFolders => {
                if walk.task.kind == TaskKind::AllFolders {
                    self.unwatched += walk.unwatched;
                }
                self.scan_tasks -= 1;
                if self.scan_tasks == 0 {
                    self.has_scanned = true;
                    self.report(None);
                }
            }
        }
    }

    /// Visits a folder: watches it within the limit, looks for changes, and adds the folders in
    /// it to the walk.
    fn visit(&mut self, walk: &mut Walk, path: PathBuf, depth: usize) {
        let root = walk.task.root;
        let root_kind = self.configured.roots[root].kind;
        let now = FileTime::now();
        let follow_link = root_kind.follows_links(depth);
        let Some(folder) = OpenFolder::open(&path, follow_link, &self.configured.opener) else {
            return;
        };
        let state = self.watches.add(&folder, &path, root, depth);
        if state == WatchState::Unwatched {
            walk.unwatched += 1;
            let polled = self.polled_folder(&path, root);
            self.polling
                .add(polled, &self.configured.roots[root].path, now);
        }
        // The folder is read after it is watched, so that no change is missed. If it was
        // watched before, events have reported its changes.
        let since = (state != WatchState::Known).then_some(walk.task.since);
        let goes_deeper = depth < walk.task.max_depth;
        let include_links = goes_deeper && root_kind.follows_links(depth + 1);
        let mut result = folder.read(since, include_links);
        if let Some(changed) = result.changed {
            if changed.is_empty() {
                self.changes.record(&path);
            } else {
                self.changes.record(&path.join(changed));
            }
        }
        if result.is_cut {
            self.warn_of_cut(&path);
        }
        if goes_deeper {
            let names = &mut result.folders;
            names.retain(|name| root_kind.watches_folder(name, depth + 1));
            if !walk.push(path, result.folders) {
                self.warn_of_cut(&walk.task.path);
            }
        }
    }

    /// Returns the folder that is polled for a path: the root's direct subfolder that holds the
    /// path, or the root.
    fn polled_folder(&self, path: &Path, root: usize) -> PathBuf {
        let root = &self.configured.roots[root].path;
        let inside = path.strip_prefix(root).ok();
        match inside.and_then(|inside| inside.components().next()) {
            Some(first) => root.join(first),
            None => root.clone(),
        }
    }

    /// Publishes the number of watched and of polled folders, and returns both.
    fn publish(&self) -> FolderCounts {
        let counts = FolderCounts {
            watched: self.watches.len(),
            polled: self.unwatched,
        };
        (self.publish)(counts);
        counts
    }

    /// Logs how many folders are watched. `round_time` is the duration of a round of polling, or
    /// `None` after a scan.
    fn report(&mut self, round_time: Option<Duration>) {
        let FolderCounts { watched, polled } = self.publish();
        match round_time {
            None if polled == 0 => {
                tracing::info!("watching {} for changes", count(watched, "folder"));
            }
            None if self.last_warning == Warning::Nothing => {
                self.last_warning = Warning::Polling;
                tracing::warn!(
                    "watching {} for changes, and polling {polled} more: {}",
                    count(watched, "folder"),
                    self.watches.limit().reason(),
                );
            }
            Some(_) if polled == 0 => self.last_warning = Warning::Nothing,
            Some(round_time) if self.last_warning == Warning::Polling => {
                self.last_warning = Warning::RoundTime;
                tracing::warn!(
                    "polling {} takes {:.1} seconds: changes there are noticed within \
                     that time",
                    count(polled, "folder"),
                    (round_time + CHECK_INTERVAL).as_secs_f64(),
                );
            }
            _ => {}
        }
    }

    fn warn_of_cut(&mut self, path: &Path) {
        if !self.has_warned_of_cut {
            tracing::warn!(
                "too many entries in `{}` or beside it, more than {MAX_ENTRIES}: changes in the \
                 rest are not noticed",
                Line::new(path.display())
            );
        }
        self.has_warned_of_cut = true;
    }
}
