//! Folders of skills that stay open between calls. To look whether a name still
//! leads to one takes less time than to open it anew; whoever asks has to.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::skill::guard::Folder;

/// How many stay open at most. Each is a file descriptor, and holds a folder
/// that was removed until it is asked for.
const FOLDERS: usize = 8;

/// One in so many of the process's file descriptors may be such a folder.
const SHARE: usize = 32;

/// The folders that were asked for last, newest first.
#[derive(Debug)]
pub(super) struct Kept {
    most: usize,
    folders: Mutex<VecDeque<Place>>,
}

/// A folder, and where it was found.
#[derive(Debug)]
struct Place {
    root: usize,
    name: String,
    folder: Folder,
}

impl Place {
    fn is(&self, root: usize, name: &str) -> bool {
        self.root == root && self.name == name
    }
}

impl Kept {
    /// For a process that may have so many file descriptors.
    pub(super) fn new(descriptors: usize) -> Self {
        Self {
            most: FOLDERS.min(descriptors / SHARE),
            folders: Mutex::default(),
        }
    }

    /// The folder that had this name in this root when it was opened.
    pub(super) fn find(&self, root: usize, name: &str) -> Option<Folder> {
        let mut folders = self.folders();
        let at = folders.iter().position(|place| place.is(root, name))?;
        if at > 0 {
            let found = folders.remove(at)?;
            folders.push_front(found);
        }
        folders.front().map(|place| place.folder.clone())
    }

    /// Keeps a folder, in place of another of this name or of the one that
    /// nobody has asked for the longest.
    pub(super) fn keep(&self, root: usize, name: &str, folder: Folder) {
        let Some(others) = self.most.checked_sub(1) else {
            return;
        };
        let mut folders = self.folders();
        folders.retain(|place| !place.is(root, name));
        folders.truncate(others);
        folders.push_front(Place {
            root,
            name: name.to_owned(),
            folder,
        });
    }

    fn folders(&self) -> MutexGuard<'_, VecDeque<Place>> {
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
    use crate::skill::guard::HardLinks;

    #[test]
    fn those_that_were_asked_for_last_are_kept_and_no_more() {
        let place = tempfile::tempdir().unwrap();
        let keep = |kept: &Kept, root, name: &str| {
            let folder = Dir::open_ambient_dir(&place, ambient_authority()).unwrap();
            let folder = Folder::new(folder.into_std_file().into(), HardLinks::Refused);
            kept.keep(root, name, folder.unwrap());
        };
        for (descriptors, most) in [(0, 0), (31, 0), (64, 2), (1024, 8), (usize::MAX, 8)] {
            let kept = Kept::new(descriptors);
            let is_kept = |root, name: &str| kept.find(root, name).is_some();
            for number in 0..20 {
                keep(&kept, 0, &number.to_string());
                keep(&kept, 0, &number.to_string());
                assert!(!is_kept(1, &number.to_string()), "{number}");
                assert_eq!(is_kept(0, "0"), most > 1 || number < most, "{number}");
            }
            for number in 1..20 {
                let last = most > 0 && (number == 19 || number > 20 - most);
                assert_eq!(is_kept(0, &number.to_string()), last, "{number} of {most}");
            }
            assert_eq!(kept.folders().len(), most);
        }
    }
}
