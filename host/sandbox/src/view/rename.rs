//! Renaming in a view. Moved nodes are copied into memory first, so that files on the disk
//! are only read at their original paths.

use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::View;
use super::file::FileNode;
use super::folder::{FolderNode, Node};
use super::operations::EntryCounter;
use super::resolve::{FoundEntry, LastLink, PathEnd, PathEntry};

impl View {
    /// Renames a file, folder or link, and replaces the target. `counter` counts the entries
    /// read from folders.
    pub(crate) async fn rename(
        &self,
        (base, path): (&Arc<FolderNode>, &str),
        (new_base, new_path): (&Arc<FolderNode>, &str),
        counter: &mut EntryCounter<'_>,
    ) -> Result<(), Errno> {
        let old = self.resolve(base, path, LastLink::NeverFollowed)?;
        let new = self.resolve(new_base, new_path, LastLink::NeverFollowed)?;
        let (PathEnd::Entry(mut old), PathEnd::Entry(mut new)) = (old, new) else {
            return Err(Errno::BUSY);
        };
        // Resolving the second path may have created nodes for entries of the first.
        old.found = self.find(&old.parent, &old.name)?;
        let node = old.found.take().ok_or(Errno::NOENT)?;
        if new.parent.is_removed() {
            return Err(Errno::NOENT);
        }
        let is_folder = node.kind() == FileType::Directory;
        if !is_folder && (old.has_slash || new.has_slash) {
            return Err(Errno::NOTDIR);
        }
        if is_same_name(&old, &new) {
            return Ok(());
        }
        let node = self.node(&old.parent, &old.name, node)?;
        let replaced = new.found.take();
        if lies_in(&new.parent, &node) {
            return Err(Errno::INVAL);
        }
        if let Some(FoundEntry::Node(replaced)) = &replaced
            && lies_in(&old.parent, replaced)
        {
            return Err(Errno::NOTEMPTY);
        }
        let replaced_folder = match replaced {
            None => None,
            Some(there) if is_node(&there, &node) => return Ok(()),
            Some(there) => match (is_folder, there.kind() == FileType::Directory) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) => {
                    let folder = self.folder_node(&new.parent, &new.name, there)?;
                    self.check_empty(&folder, counter).await?;
                    let status = self.status_of(&Node::Folder(Arc::clone(&folder)))?;
                    Some((folder, status))
                }
                (false, false) => None,
            },
        };
        let height = self.copy_up(&node, counter).await?;
        let budget = new.parent.budget();
        if is_folder {
            budget.check_depth(new.parent.depth() + 1 + height)?;
        }
        let old_hiding_charge = budget.charge_entry(&old.name)?;
        let new_hiding_charge = budget.charge_entry(&new.name)?;
        let new_charge = budget.charge_entry(&new.name)?;
        // From here on, nothing can fail.
        if let Some(file) = new.parent.detach(&new.name, new_hiding_charge)
            && replaced_folder.is_none()
        {
            file.add_links(-1);
        }
        if let Some((folder, status)) = replaced_folder {
            folder.remove(&status);
        }
        old.parent.detach(&old.name, old_hiding_charge);
        new.parent.attach(&new.name, node.clone(), new_charge);
        // This only sets the change time.
        node.add_links(0);
        Ok(())
    }

    /// Copies a node from the disk into memory, with everything below it. Returns how deep
    /// folders nest below it.
    async fn copy_up(&self, node: &Node, counter: &mut EntryCounter<'_>) -> Result<usize, Errno> {
        let mut height = 0;
        let mut rest = vec![(node.clone(), 0)];
        while let Some((node, depth)) = rest.pop() {
            // Checks the turn before each node, because copying a file takes longer than reading an
            // entry.
            counter.pause_if_over().await;
            let folder = match &node {
                Node::Link(_) => continue,
                Node::File(file) => {
                    self.copy_file_up(file)?;
                    continue;
                }
                Node::Folder(folder) => folder,
            };
            height = height.max(depth);
            if folder.disk_path().is_some() {
                let mut listing = self.list(folder)?;
                while let Some(entry) = listing.step().transpose() {
                    counter.count().await?;
                    if let Some((name, _)) = entry?
                        && let Some(found) = self.find(folder, &name)?
                    {
                        self.node(folder, &name, found)?;
                    }
                }
                let status = self.status_of(&node)?;
                folder.detach_from_disk(&status);
            }
            let entries = folder.entries().into_iter();
            rest.extend(entries.map(|(_, node)| (node, depth + 1)));
        }
        Ok(height)
    }

    /// Copies a file from the disk into memory.
    pub(super) fn copy_file_up(&self, file: &Arc<FileNode>) -> Result<(), Errno> {
        if file.disk_path().is_none() {
            return Ok(());
        }
        self.open_file(file)?.copy_up()
    }
}

/// Returns whether both paths are the same name in the same folder.
fn is_same_name(one: &PathEntry, other: &PathEntry) -> bool {
    Arc::ptr_eq(&one.parent, &other.parent) && one.name == other.name
}

/// Returns whether a folder is `node` or inside it.
fn lies_in(folder: &Arc<FolderNode>, node: &Node) -> bool {
    match node {
        Node::Folder(node) => folder.ancestors().any(|folder| Arc::ptr_eq(&folder, node)),
        _ => false,
    }
}

/// Returns whether an entry is exactly this node.
fn is_node(found: &FoundEntry, node: &Node) -> bool {
    match (found, node) {
        (FoundEntry::Node(Node::File(one)), Node::File(other)) => Arc::ptr_eq(one, other),
        (FoundEntry::Node(Node::Link(one)), Node::Link(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}
