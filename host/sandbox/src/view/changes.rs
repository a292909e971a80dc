//! The changes of a view at the end of its call: files of the call's folder that differ
//! from the disk.

use std::io::Read as _;
use std::iter;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;

use super::View;
use super::folder::{FolderNode, Node};
use crate::tool::ViewChanges;
use skillhost_skills::entries::ListedEntries;
use skillhost_skills::guard::PathTarget;

/// A walk through a view that collects changes. It stops with `None` once the call is over.
/// Guards against: a guest that creates as much as its limits allow, so that the walk keeps a
/// thread busy past the deadline.
struct ChangeWalk<'a> {
    view: &'a View,
    is_over: &'a dyn Fn() -> bool,
    /// The current path in the call's folder.
    path: String,
    changes: ViewChanges,
}

impl View {
    /// Returns the changes, with at most `max` changed and `max` removed paths.
    ///
    /// Returns `None` if the call is over before all changes are collected. Call this only after
    /// the guest has ended: the result shares the bytes of changed files, and writing to shared
    /// bytes fails.
    pub(crate) fn changes(&self, max: usize, is_over: &dyn Fn() -> bool) -> Option<ViewChanges> {
        let mut walk = ChangeWalk {
            view: self,
            is_over,
            path: String::new(),
            changes: ViewChanges::new(max),
        };
        walk.add_folder(&self.folder, true)?;
        Some(walk.changes)
    }
}

impl ChangeWalk<'_> {
    /// Runs a function with a name added to the current path.
    fn at(&mut self, name: &str, work: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        if (self.is_over)() {
            return None;
        }
        let here = self.path.len();
        if here > 0 {
            self.path.push('/');
        }
        self.path.push_str(name);
        work(self)?;
        self.path.truncate(here);
        Some(())
    }

    /// Adds the changes in the current folder. `is_on_disk` is true if the disk has this
    /// folder too.
    fn add_folder(&mut self, folder: &Arc<FolderNode>, is_on_disk: bool) -> Option<()> {
        if is_on_disk {
            self.add_removed(folder)?;
        }
        let next = |(name, _): &(String, Node)| folder.entry_after(name);
        for (name, node) in iter::successors(folder.entry_after(""), next) {
            self.at(&name, |walk| match node {
                Node::Folder(folder) => {
                    let is_on_disk = is_on_disk && walk.kind_on_disk() == Some(FileType::Directory);
                    walk.add_folder(&folder, is_on_disk)
                }
                Node::Link(_) => Some(()),
                Node::File(file) => {
                    if let Some(bytes) = file.bytes()
                        && !(is_on_disk && walk.disk_has_bytes(&bytes)?)
                    {
                        walk.changes.add_file(&walk.path, bytes);
                    }
                    Some(())
                }
            })?;
        }
        Some(())
    }

    /// Adds the disk's entries in the current folder that the view no longer has.
    fn add_removed(&mut self, folder: &Arc<FolderNode>) -> Option<()> {
        if folder.disk_path().is_some() {
            let next = |name: &String| folder.hidden_after(name);
            for name in iter::successors(folder.hidden_after(""), next) {
                self.add_if_removed(folder, &name)?;
            }
            return Some(());
        }
        // A new or moved folder has no list of hidden names. The disk can have another folder at
        // this path; the view may have removed any name in it.
        let entries = self.entries_on_disk().into_iter().flatten();
        for entry in entries {
            if (self.is_over)() {
                return None;
            }
            if let Ok(Some(name)) = entry.map(|entry| entry?.name.into_string().ok()) {
                self.add_if_removed(folder, &name)?;
            }
        }
        Some(())
    }

    fn add_if_removed(&mut self, folder: &Arc<FolderNode>, name: &str) -> Option<()> {
        self.at(name, |walk| {
            if let Some(kind) = walk.kind_on_disk() {
                let was_folder = kind == FileType::Directory;
                let is_kept = match folder.entry(name) {
                    None => false,
                    Some(Node::Folder(_)) => was_folder,
                    Some(_) => !was_folder,
                };
                if !is_kept {
                    walk.changes.removed.add(&walk.path, ());
                }
            }
            Some(())
        })
    }

    /// Returns the type of the disk's entry at the current path.
    fn kind_on_disk(&self) -> Option<FileType> {
        let status = self.view.disk_status(Path::new(&self.path));
        Some(status.ok()?.kind)
    }

    /// Lists the disk's folder at the current path, if it exists.
    fn entries_on_disk(&self) -> Option<ListedEntries> {
        match self.view.disk.lookup(Path::new(&self.path), false) {
            Ok(PathTarget::Folder(folder)) => folder.entries().ok(),
            _ => None,
        }
    }

    /// Returns whether the disk has a file with these bytes at the current path. Returns `None` if
    /// the call is over.
    fn disk_has_bytes(&self, bytes: &[u8]) -> Option<bool> {
        let Ok(PathTarget::File(seen)) = self.view.disk.lookup(Path::new(&self.path), false) else {
            return Some(false);
        };
        if seen.size != bytes.len() as u64 {
            return Some(false);
        }
        let Ok(mut file) = seen.open() else {
            return Some(false);
        };
        let mut rest = bytes;
        let mut buffer = [0; 8 << 10];
        while !(self.is_over)() {
            match file.read(&mut buffer) {
                Ok(0) => return Some(rest.is_empty()),
                Ok(length) => match rest.strip_prefix(&buffer[..length]) {
                    Some(after) => rest = after,
                    None => return Some(false),
                },
                Err(_) => return Some(false),
            }
        }
        None
    }
}
