//! A cache of open skill folders. Checking that a path still leads to a folder is faster than
//! opening the folder again. The caller does the check.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::guard::Folder;

/// The maximum number of cached folders. Each uses a file descriptor, and keeps the disk space of a
/// removed folder in use.
const MAX_FOLDERS: usize = 8;

/// The cache uses at most 1 / `DESCRIPTORS_DIVISOR` of the process's file descriptors.
const DESCRIPTORS_DIVISOR: usize = 32;

/// The cached folders, most recently used first.
#[derive(Debug)]
pub(super) struct FolderCache {
    max: usize,
    folders: Mutex<VecDeque<CachedFolder>>,
}

/// A folder, with the root and path at which it was opened.
#[derive(Debug)]
struct CachedFolder {
    root: usize,
    path: String,
    folder: Folder,
}

impl CachedFolder {
    fn is_at(&self, root: usize, path: &str) -> bool {
        self.root == root && self.path == path
    }
}

impl FolderCache {
    /// Creates a cache for a process with this limit on file descriptors.
    pub(super) fn new(descriptors: usize) -> Self {
        Self {
            max: MAX_FOLDERS.min(descriptors / DESCRIPTORS_DIVISOR),
            folders: Mutex::default(),
        }
    }

    /// Returns the cached folder at this path in a root.
    pub(super) fn get(&self, root: usize, path: &str) -> Option<Folder> {
        let mut folders = self.folders();
        let at = folders.iter().position(|cached| cached.is_at(root, path))?;
        let found = folders.remove(at)?;
        let folder = found.folder.clone();
        folders.push_front(found);
        Some(folder)
    }

    /// Adds a folder. Replaces the one at the same path, or the least recently used one if the
    /// cache is full.
    pub(super) fn insert(&self, root: usize, path: &str, folder: Folder) {
        let Some(others) = self.max.checked_sub(1) else {
            return;
        };
        let mut folders = self.folders();
        folders.retain(|cached| !cached.is_at(root, path));
        folders.truncate(others);
        folders.push_front(CachedFolder {
            root,
            path: path.to_owned(),
            folder,
        });
    }

    fn folders(&self) -> MutexGuard<'_, VecDeque<CachedFolder>> {
        self.folders
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::*;
    use crate::broker::Opener;
    use crate::guard::HardLinks;

    #[test]
    fn keeps_recently_used_folders_up_to_the_limit() {
        let place = tempfile::tempdir().unwrap();
        let insert = |cache: &FolderCache, root, name: &str| {
            let folder = Dir::open_ambient_dir(&place, ambient_authority()).unwrap();
            let handle = folder.into_std_file().into();
            let folder = Folder::new(handle, HardLinks::Refused, Opener::DIRECT);
            cache.insert(root, name, folder.unwrap());
        };
        for (descriptors, max) in [(0, 0), (31, 0), (64, 2), (1024, 8), (usize::MAX, 8)] {
            let cache = FolderCache::new(descriptors);
            let has = |root, name: &str| cache.get(root, name).is_some();
            for number in 0..20 {
                insert(&cache, 0, &number.to_string());
                insert(&cache, 0, &number.to_string());
                assert!(!has(1, &number.to_string()), "{number}");
                assert_eq!(has(0, "0"), max > 1 || number < max, "{number}");
            }
            for number in 1..20 {
                let is_cached = max > 0 && (number == 19 || number > 20 - max);
                assert_eq!(has(0, &number.to_string()), is_cached, "{number} of {max}");
            }
            assert_eq!(cache.folders().len(), max);
        }
    }
}
