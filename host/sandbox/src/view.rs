//! The copy-on-write view of a call: its folder as if it were writable, and an empty
//! `/tmp`. All changes are in memory and are dropped after the call. The view reads the disk
//! through the guard and never writes to it. `wasi/filesystem.rs` offers the view to guests.
//!
//! | file | contents |
//! |---|---|
//! | `file.rs`, `link.rs`, `folder.rs` | the nodes: files, links and folders, with their identity |
//! | `resolve.rs` | finds the entry of a path |
//! | `operations.rs`, `rename.rs` | a guest's operations on paths |
//! | `changes.rs` | the changes, collected when the call ends |
//! | `budget.rs` | the limits |
//!
//! Nodes are created when something is opened, changed, or traversed. The view behaves like
//! Linux, unless WASI requires otherwise.

mod budget;
mod changes;
mod file;
mod folder;
mod link;
mod node;
mod operations;
mod rename;
mod resolve;

use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::engine::CallQuota;
use crate::tool::limits::Limits;
use skillhost_skills::descriptors::{CallDescriptors, DescriptorLease};
use skillhost_skills::guard::Folder;

use budget::ViewBudget;
pub(crate) use file::FileHandle;
use file::errno;
pub(crate) use folder::{FolderListing, FolderNode};
pub(crate) use node::{NodeStatus, Timestamp, now};
pub(crate) use operations::{EntryCounter, OpenMode, ViewHandle};
use resolve::{LastLink, PathEnd};

/// The path under which guests see the folder for temporary files.
pub(crate) const TEMPORARY: &str = "/tmp";

/// The view of one call.
pub struct View {
    /// The call's folder on the disk.
    disk: Arc<Folder>,
    folder: Arc<FolderNode>,
    temporary: Arc<FolderNode>,
    descriptors: Arc<CallDescriptors>,
}

impl View {
    /// Creates the view of a folder. Its memory counts against the quota.
    pub fn new(
        disk: Arc<Folder>,
        limits: &Limits,
        quota: &Arc<CallQuota>,
        descriptors: Arc<CallDescriptors>,
        tool: Arc<str>,
    ) -> Result<Self, Errno> {
        let budget = ViewBudget::new(limits, quota, tool);
        let status = disk.status().map_err(|error| errno(&error))?;
        Ok(Self {
            folder: FolderNode::on_disk(&status, PathBuf::new(), budget.empty_charge()),
            temporary: FolderNode::empty(budget.empty_charge()),
            disk,
            descriptors,
        })
    }

    /// Returns the call's folder.
    pub(crate) fn folder(&self) -> &Arc<FolderNode> {
        &self.folder
    }

    /// Returns the folder for temporary files.
    pub(crate) fn temporary(&self) -> &Arc<FolderNode> {
        &self.temporary
    }

    /// Opens a file in the call's folder for reading.
    pub(crate) fn open_file_to_read(&self, path: &str) -> Result<FileHandle, Errno> {
        match self.open_for_reading(path)? {
            ViewHandle::File(file) => Ok(file),
            ViewHandle::Folder(_) => Err(Errno::ISDIR),
        }
    }

    fn open_for_reading(&self, path: &str) -> Result<ViewHandle, Errno> {
        let mode = OpenMode {
            follow: true,
            read: true,
            ..OpenMode::default()
        };
        self.open(&self.folder, path, mode)
    }

    /// Opens a module in the call's folder for reading.
    ///
    /// Returns `None` if the call changed, moved, removed or shadowed the module. Fails with
    /// `ENOENT` if the disk has nothing at this path, and with `EISDIR` if it has a folder.
    pub(crate) fn open_module(&self, path: &str) -> Result<Option<FileHandle>, Errno> {
        let unchanged_path = self.path_on_disk(path)?;
        let found = match self.open_for_reading(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::PERM) => return Ok(None),
            found => found?,
        };
        let found_path = match &found {
            ViewHandle::File(file) => file.node.disk_path(),
            ViewHandle::Folder(folder) => folder.disk_path(),
        };
        match found {
            _ if found_path != Some(unchanged_path) => Ok(None),
            ViewHandle::File(file) => Ok(Some(file)),
            ViewHandle::Folder(_) => Err(Errno::ISDIR),
        }
    }

    /// Returns the canonical path on the disk, as if the call had changed nothing.
    fn path_on_disk(&self, path: &str) -> Result<PathBuf, Errno> {
        let status = self.disk.status().map_err(|error| errno(&error))?;
        let budget = self.folder.budget().empty_charge();
        let unchanged = FolderNode::on_disk(&status, PathBuf::new(), budget);
        let on_disk = match self.resolve(&unchanged, path, LastLink::Followed)? {
            PathEnd::Entry(entry) => {
                let found = entry.found.ok_or(Errno::NOENT)?;
                if entry.has_slash && found.kind() != FileType::Directory {
                    return Err(Errno::NOTDIR);
                }
                entry.parent.disk_path_of(&entry.name)
            }
            PathEnd::Folder(folder) => folder.disk_path(),
        };
        on_disk.ok_or(Errno::NOENT)
    }

    /// Leases a descriptor for one more file or folder on the disk.
    fn lease_descriptor(&self) -> Result<DescriptorLease, Errno> {
        self.descriptors.lease().ok_or(Errno::MFILE)
    }
}

#[cfg(test)]
mod tests;
