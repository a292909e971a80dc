//! Folders of skills that stay open between calls. To look whether a name still
//! leads to one takes less time than to open it anew; whoever asks has to.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::guard::Folder;

/// How many stay open. Each is a file descriptor, and holds a folder that was
/// removed until it is asked for.
const FOLDERS: usize = 8;

/// The folders that were asked for last, newest first.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<VecDeque<(String, Folder)>>);

impl Kept {
    /// The folder that had this name when it was opened.
    pub(super) fn find(&self, name: &str) -> Option<Folder> {
        let mut folders = self.folders();
        let at = folders.iter().position(|(kept, _)| kept == name)?;
        if at > 0 {
            let found = folders.remove(at)?;
            folders.push_front(found);
        }
        folders.front().map(|(_, folder)| folder.clone())
    }

    /// Keeps a folder, in place of another of this name or of the one that
    /// nobody has asked for the longest.
    pub(super) fn keep(&self, name: &str, folder: Folder) {
        let mut folders = self.folders();
        folders.retain(|(kept, _)| kept != name);
        folders.truncate(FOLDERS - 1);
        folders.push_front((name.to_owned(), folder));
    }

    fn folders(&self) -> MutexGuard<'_, VecDeque<(String, Folder)>> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::*;
    use crate::guard::HardLinks;

    #[test]
    fn those_that_were_asked_for_last_are_kept_and_no_more() {
        let (kept, place) = (Kept::default(), tempfile::tempdir().unwrap());
        let keep = |name: &str| {
            let folder = Dir::open_ambient_dir(&place, ambient_authority()).unwrap();
            let folder = Folder::new(folder.into_std_file().into(), HardLinks::Refused);
            kept.keep(name, folder.unwrap());
        };
        let is_kept = |name: &str| kept.find(name).is_some();
        assert!(!is_kept("0"));
        for number in 0..20 {
            keep(&number.to_string());
            keep(&number.to_string());
            assert!(is_kept("0"), "{number}");
        }
        for number in 1..20 {
            let last = number > 20 - FOLDERS;
            assert_eq!(is_kept(&number.to_string()), last, "{number}");
        }
        assert_eq!(kept.folders().len(), FOLDERS);
    }
}
