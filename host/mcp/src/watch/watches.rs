//! The folders that the kernel watches, up to a bound.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::inotify::{FolderEvent, Inotify, WatchId};
use super::visit::{FolderId, OpenFolder};

/// The most folders that the kernel is asked to watch. Guards against: memory of the
/// kernel, about 1 KiB for each, and 200 bytes of ours.
const MOST_WATCHED: usize = 65_536;

/// The most folders, if the kernel does not say how many a user may watch.
const FEW_WATCHED: usize = 4096;

/// One in this number of the user's watches is taken: editors need them as well.
const SHARE: usize = 2;

/// The folders that the kernel watches.
#[derive(Debug)]
pub(super) struct Watches {
    inotify: Inotify,
    bound: WatchBound,
    folders: HashMap<WatchId, WatchedFolder>,
    ids: HashMap<FolderId, WatchId>,
}

/// The most folders that are watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct WatchBound {
    most: usize,
    /// The kernel's own limit, if that is the reason.
    limit: Option<usize>,
}

/// A folder that the kernel watches.
#[derive(Debug)]
pub(super) struct WatchedFolder {
    pub(super) path: Box<Path>,
    /// The number of the configured folder that it is in.
    pub(super) root: usize,
    /// Its depth there.
    pub(super) depth: usize,
    id: FolderId,
}

/// The state of a folder that should be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchState {
    /// There is no room for it.
    Unwatched,
    /// Watched from now on.
    New,
    /// Watched before.
    Old,
}

impl WatchBound {
    /// Returns the bound that suits this system.
    pub(super) fn of_system() -> Self {
        let limit = Inotify::user_limit();
        let share = limit.map_or(FEW_WATCHED, |limit| limit / SHARE);
        Self {
            most: share.min(MOST_WATCHED),
            limit: limit.filter(|_| share < MOST_WATCHED),
        }
    }

    #[cfg(test)]
    pub(super) fn new(most: usize) -> Self {
        Self { most, limit: None }
    }

    /// Returns the reason for the bound, and the setting that would change it.
    pub(super) fn reason(self) -> String {
        match self.limit {
            Some(limit) => format!(
                "`fs.inotify.max_user_watches` is {limit}, and at most one in {SHARE} of them, or \
                 what others leave, is taken"
            ),
            None => format!("at most {} are watched", self.most),
        }
    }
}

impl Watches {
    pub(super) fn new(bound: WatchBound) -> io::Result<Self> {
        Ok(Self {
            inotify: Inotify::new()?,
            bound,
            folders: HashMap::new(),
            ids: HashMap::new(),
        })
    }

    /// Asks the kernel to watch a folder.
    pub(super) fn add(
        &mut self,
        open: &OpenFolder,
        path: &Path,
        root: usize,
        depth: usize,
    ) -> WatchState {
        if self.folders.len() >= self.bound.most {
            return match self.ids.contains_key(&open.id) {
                true => WatchState::Old,
                false => WatchState::Unwatched,
            };
        }
        let watch = match self.inotify.add(open.handle.as_fd()) {
            Ok(watch) => watch,
            Err(error) => {
                if matches!(error, Errno::NOSPC | Errno::NOMEM) {
                    self.bound.most = self.folders.len();
                    self.bound.limit = Inotify::user_limit();
                }
                return WatchState::Unwatched;
            }
        };
        if self.folders.contains_key(&watch) {
            return WatchState::Old;
        }
        let id = open.id;
        let path = path.into();
        let folder = WatchedFolder {
            path,
            root,
            depth,
            id,
        };
        self.folders.insert(watch, folder);
        self.ids.insert(id, watch);
        WatchState::New
    }

    /// Passes on the events that one read gives. Returns whether there were any.
    pub(super) fn read(&self, event: impl FnMut(FolderEvent)) -> bool {
        self.inotify.read(event)
    }

    pub(super) fn get(&self, watch: WatchId) -> Option<&WatchedFolder> {
        self.folders.get(&watch)
    }

    /// Returns the number of watched folders.
    pub(super) fn len(&self) -> usize {
        self.folders.len()
    }

    pub(super) fn bound(&self) -> WatchBound {
        self.bound
    }

    /// Forgets a watch that the kernel has dropped.
    pub(super) fn forget(&mut self, watch: WatchId) {
        if let Some(folder) = self.folders.remove(&watch)
            && self.ids.get(&folder.id) == Some(&watch)
        {
            self.ids.remove(&folder.id);
        }
    }

    /// Drops the watches of these folders, and of all folders in them.
    pub(super) fn remove_below(&mut self, gone: &BTreeSet<PathBuf>) {
        let is_gone = |path: &Path| path.ancestors().any(|above| gone.contains(above));
        let watches = self.folders.iter();
        let watches = watches.filter(|(_, folder)| is_gone(&folder.path));
        for watch in watches.map(|(watch, _)| *watch).collect::<Vec<_>>() {
            self.inotify.remove(watch);
            self.forget(watch);
        }
    }
}

impl AsFd for Watches {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
