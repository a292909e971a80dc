//! A snapshot of a folder, to compare the folder with it and to restore it.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// The entries of a folder by their relative paths.
#[derive(Clone, PartialEq)]
pub(super) struct State(BTreeMap<PathBuf, Entry>);

#[derive(Clone, PartialEq)]
enum Entry {
    /// A folder with its mode.
    Folder(u32),
    /// A file with its mode and its content.
    File(u32, Vec<u8>),
    Link(PathBuf),
    Other,
}

impl State {
    pub(super) fn read(folder: &Path) -> Self {
        let mut entries = BTreeMap::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(within) = folders.pop() {
            for entry in fs::read_dir(folder.join(&within)).unwrap() {
                let entry = entry.unwrap();
                let path = within.join(entry.file_name());
                let metadata = fs::symlink_metadata(entry.path()).unwrap();
                let mode = metadata.permissions().mode() & 0o7777;
                let kind = metadata.file_type();
                let found = if kind.is_dir() {
                    folders.push(path.clone());
                    Entry::Folder(mode)
                } else if kind.is_symlink() {
                    Entry::Link(fs::read_link(entry.path()).unwrap())
                } else if kind.is_file() {
                    Entry::File(mode, fs::read(entry.path()).unwrap())
                } else {
                    Entry::Other
                };
                entries.insert(path, found);
            }
        }
        Self(entries)
    }

    /// Restores a folder to this state.
    pub(super) fn restore(&self, folder: &Path) {
        let now = Self::read(folder);
        // Unpacked skills are read-only.
        for (path, _) in now.folders() {
            set_mode(&folder.join(path), 0o700);
        }
        // The contents of a folder are removed before the folder.
        for (path, entry) in now.0.iter().rev() {
            let is_same_folder = matches!(
                (entry, self.0.get(path)),
                (Entry::Folder(_), Some(Entry::Folder(_)))
            );
            if self.0.get(path) == Some(entry) || is_same_folder {
                continue;
            }
            let path = folder.join(path);
            match entry {
                Entry::Folder(_) => fs::remove_dir(path).unwrap(),
                _ => fs::remove_file(path).unwrap(),
            }
        }
        for (path, entry) in &self.0 {
            if now.0.get(path) == Some(entry) {
                continue;
            }
            let path = folder.join(path);
            let mode = match entry {
                Entry::Folder(_) => {
                    fs::create_dir_all(&path).unwrap();
                    continue;
                }
                Entry::File(mode, bytes) => {
                    fs::write(&path, bytes).unwrap();
                    mode
                }
                Entry::Link(target) => {
                    symlink(target, path).unwrap();
                    continue;
                }
                Entry::Other => panic!("cannot restore {path:?}"),
            };
            set_mode(&path, *mode);
        }
        for (path, mode) in self.folders() {
            set_mode(&folder.join(path), mode);
        }
    }

    /// Returns the folders with their modes, inner ones first.
    fn folders(&self) -> impl Iterator<Item = (&PathBuf, u32)> {
        self.0.iter().rev().filter_map(|(path, entry)| match entry {
            Entry::Folder(mode) => Some((path, *mode)),
            _ => None,
        })
    }

    /// Returns the paths whose entries differ in the two states.
    pub(super) fn difference(&self, other: &Self) -> Vec<PathBuf> {
        let all = self.0.keys().chain(other.0.keys());
        let differing = all.filter(|path| self.0.get(*path) != other.0.get(*path));
        differing.cloned().collect()
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}
