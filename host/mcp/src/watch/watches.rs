//! The folders that the kernel watches, up to a limit.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use skillhost_skills::broker::Opener;
use skillhost_skills::inotify::{FolderEvent, Inotify, WatchId};

use super::visit::{FolderId, OpenFolder};

/// The maximum number of folders that the kernel is asked to watch. Guards against: skills with so
/// many folders that their watches fill memory. Each takes about 1 KiB in the kernel and 200 bytes
/// in this process.
const MAX_WATCHED: usize = 65_536;

/// The maximum number of folders, if the kernel's limit for a user is unknown.
const MAX_WATCHED_BY_DEFAULT: usize = 4096;

/// The kernel's limit for a user divided by this is the limit of skillhost. Editors need watches
/// too.
const USER_LIMIT_DIVISOR: usize = 2;

/// The folders that the kernel watches.
#[derive(Debug)]
pub(super) struct Watches {
    inotify: Inotify,
    limit: WatchLimit,
    /// The maximum number of folders at present. Lower than the limit while
    /// [paused](Self::pause).
    max: usize,
    folders: HashMap<WatchId, WatchedFolder>,
    ids: HashMap<FolderId, WatchId>,
}

/// The limit on the number of watched folders.
#[derive(Debug, Clone, Copy)]
pub(super) struct WatchLimit {
    max: usize,
    /// The kernel's limit for a user, if `max` follows from it.
    user_limit: Option<usize>,
}

/// A folder that the kernel watches.
#[derive(Debug)]
pub(super) struct WatchedFolder {
    pub(super) path: Box<Path>,
    /// The index of the configured folder that it is in.
    pub(super) root: usize,
    /// Its depth in the configured folder.
    pub(super) depth: usize,
    id: FolderId,
}

/// The result of watching a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchState {
    /// Not watched, because of the limit or an error.
    Unwatched,
    /// Watched from now on.
    New,
    /// Watched before.
    Known,
}

impl WatchLimit {
    /// Returns the limit for this system.
    pub(super) fn of_system() -> Self {
        let user_limit = Inotify::user_limit();
        let max = user_limit.map_or(MAX_WATCHED_BY_DEFAULT, |limit| limit / USER_LIMIT_DIVISOR);
        Self {
            max: max.min(MAX_WATCHED),
            user_limit: user_limit.filter(|_| max < MAX_WATCHED),
        }
    }

    #[cfg(test)]
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            user_limit: None,
        }
    }

    /// Returns the reason for the limit, with the kernel's setting if the limit follows from it.
    pub(super) fn reason(self) -> String {
        match self.user_limit {
            Some(limit) => format!(
                "`fs.inotify.max_user_watches` is {limit}, and skillhost uses at most \
                 1/{USER_LIMIT_DIVISOR} of these watches, or fewer if other programs use more"
            ),
            None => format!("skillhost watches at most {}", self.max),
        }
    }
}

impl Watches {
    pub(super) fn new(limit: WatchLimit, opener: Opener) -> io::Result<Self> {
        Ok(Self {
            inotify: Inotify::new(opener)?,
            limit,
            max: limit.max,
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
        if self.folders.len() >= self.max {
            return if self.ids.contains_key(&open.id) {
                WatchState::Known
            } else {
                WatchState::Unwatched
            };
        }
        let watch = match self.inotify.add(open.handle.as_fd()) {
            Ok(watch) => watch,
            Err(error) => {
                if matches!(error, Errno::NOSPC | Errno::NOMEM) {
                    self.pause();
                    self.limit.user_limit = Inotify::user_limit();
                }
                return WatchState::Unwatched;
            }
        };
        if self.folders.contains_key(&watch) {
            return WatchState::Known;
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

    /// Asks the kernel for no further watches until [resumed](Self::resume).
    pub(super) fn pause(&mut self) {
        self.max = self.folders.len();
    }

    /// Asks the kernel for watches again, up to the limit. Other programs may have freed some.
    pub(super) fn resume(&mut self) {
        self.max = self.limit.max;
    }

    /// Passes the events of one read to `handle`. Returns whether there were any.
    pub(super) fn read(&self, handle: impl FnMut(FolderEvent)) -> bool {
        self.inotify.read(handle)
    }

    pub(super) fn get(&self, watch: WatchId) -> Option<&WatchedFolder> {
        self.folders.get(&watch)
    }

    /// Returns the number of watched folders.
    pub(super) fn len(&self) -> usize {
        self.folders.len()
    }

    pub(super) fn limit(&self) -> WatchLimit {
        self.limit
    }

    /// Forgets a watch that the kernel has dropped.
    pub(super) fn forget(&mut self, watch: WatchId) {
        if let Some(folder) = self.folders.remove(&watch)
            && self.ids.get(&folder.id) == Some(&watch)
        {
            self.ids.remove(&folder.id);
        }
    }

    /// Removes the watches of these folders, and of all folders in them.
    pub(super) fn remove_all(&mut self, removed: &BTreeSet<PathBuf>) {
        let is_removed = |path: &Path| path.ancestors().any(|above| removed.contains(above));
        let watches = self
            .folders
            .iter()
            .filter(|(_, folder)| is_removed(&folder.path));
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
