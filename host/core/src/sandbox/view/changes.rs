//! What a view holds when its call ends: the files of the call's folder that differ
//! from those of the disk.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::FileType;

use super::View;
use super::folder::{FolderNode, Node};
use crate::skill::entries::EntryCursor;
use crate::skill::guard::PathTarget;

/// The changes of a call, by path. Links and empty folders are not among them, nor
/// is anything below `/tmp`.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The files that are new or have other bytes than on the disk.
    pub(crate) files: Vec<ChangedFile>,
    /// The files, links and folders of the disk that are not there any more. What
    /// lay in such a folder is not listed. At most as many as a view may have files.
    pub(crate) removed: Vec<String>,
}

/// A file that is new or has other bytes than on the disk.
#[derive(Debug, Clone)]
pub(crate) struct ChangedFile {
    /// Its path in the call's folder.
    pub(crate) path: String,
    /// Its bytes, which count in the quota of calls until the last copy is dropped.
    pub(crate) bytes: Bytes,
}

impl View {
    /// Returns what has changed. The guest must have ended: a later write to a
    /// changed file would fail.
    pub(crate) fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        self.add_changes(&self.folder, "", &mut changes);
        changes
            .files
            .sort_by(|one, other| one.path.cmp(&other.path));
        changes.removed.sort();
        changes
    }

    fn add_changes(&self, folder: &Arc<FolderNode>, at: &str, changes: &mut Changes) {
        self.add_removed(folder, at, changes);
        for (name, node) in folder.entries() {
            let path = join(at, &name);
            match node {
                Node::Folder(folder) => self.add_changes(&folder, &path, changes),
                Node::Link(_) => {}
                Node::File(file) => {
                    if let Some(bytes) = file.bytes()
                        && !self.is_on_disk(&path, &bytes)
                    {
                        changes.files.push(ChangedFile { path, bytes });
                    }
                }
            }
        }
    }

    /// Adds what the disk's folder at this path has and the view's has not.
    fn add_removed(&self, folder: &Arc<FolderNode>, at: &str, changes: &mut Changes) {
        let names = match folder.disk_path() {
            Some(_) => folder.hidden(),
            None => self.names_on_disk(at),
        };
        let most = folder.budget().most_files;
        for name in names {
            let path = join(at, &name);
            let Ok(status) = self.disk_status(Path::new(&path)) else {
                continue;
            };
            let was_folder = status.kind == FileType::Directory;
            let is_there = match folder.entry(&name) {
                None => false,
                Some(Node::Folder(_)) => was_folder,
                Some(_) => !was_folder,
            };
            if !is_there && changes.removed.len() < most {
                changes.removed.push(path);
            }
        }
    }

    /// Returns the names in a folder of the disk; none if there is no such folder.
    fn names_on_disk(&self, at: &str) -> Vec<String> {
        let Ok(PathTarget::Folder(folder)) = self.disk.lookup(Path::new(at), false) else {
            return Vec::new();
        };
        let Ok(entries) = EntryCursor::of(folder.handle()) else {
            return Vec::new();
        };
        let most = self.folder.budget().most_files;
        let names = entries.filter_map(|entry| entry.ok()?.name.into_string().ok());
        names.take(most).collect()
    }

    /// Checks whether the disk has a file with these bytes at a path.
    fn is_on_disk(&self, path: &str, bytes: &[u8]) -> bool {
        let Ok(PathTarget::File(seen)) = self.disk.lookup(Path::new(path), false) else {
            return false;
        };
        if seen.size != bytes.len() as u64 {
            return false;
        }
        let Ok(mut file) = seen.open() else {
            return false;
        };
        let mut rest = bytes;
        let mut buffer = [0; 8 << 10];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return rest.is_empty(),
                Ok(length) => match rest.strip_prefix(&buffer[..length]) {
                    Some(after) => rest = after,
                    None => return false,
                },
                Err(_) => return false,
            }
        }
    }
}

fn join(at: &str, name: &str) -> String {
    match at {
        "" => name.to_owned(),
        at => format!("{at}/{name}"),
    }
}
