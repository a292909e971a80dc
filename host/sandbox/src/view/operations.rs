//! A guest's operations on paths, with the behaviour of Linux. Renaming is in `rename.rs`.

use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::View;
use super::file::{FileHandle, FileNode, errno};
use super::folder::{FolderListing, FolderNode, Node};
use super::link::LinkNode;
use super::node::{NodeStatus, Timestamp};
use super::resolve::{FoundEntry, LastLink, PathEnd, PathEntry};
use crate::engine::HostTurn;
use crate::open_file::OpenFile;
use crate::tool::script::ScriptRecorder;
use skillhost_skills::guard::PathTarget;

/// The target of a path that exists.
enum Existing {
    /// A folder without a name, because the path ends in `.` or `..`.
    Folder(Arc<FolderNode>),
    /// A folder, a name in it, and the entry with that name.
    Entry(Arc<FolderNode>, String, FoundEntry),
}

/// A handle of a file or folder.
pub(crate) enum ViewHandle {
    File(FileHandle),
    Folder(Arc<FolderNode>),
}

/// The options for opening a file or folder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenMode {
    pub(crate) follow: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
    pub(crate) directory: bool,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// A counter of the entries that an operation reads from folders.
///
/// It also pauses after each turn of computing, so that other calls can run. Guards against: a
/// large folder that makes one host call run past the call's time limit.
pub(crate) struct EntryCounter<'a> {
    /// Counts an entry. Fails once the call has read the maximum.
    count: &'a mut (dyn FnMut() -> Result<(), Errno> + Send + 'a),
    turn: HostTurn,
}

impl<'a> EntryCounter<'a> {
    pub(crate) fn new(
        turn: HostTurn,
        count: &'a mut (dyn FnMut() -> Result<(), Errno> + Send + 'a),
    ) -> Self {
        Self { count, turn }
    }

    /// Counts an entry, and pauses if the turn is over.
    pub(super) async fn count(&mut self) -> Result<(), Errno> {
        (self.count)()?;
        self.pause_if_over().await;
        Ok(())
    }

    /// Pauses if the turn is over.
    pub(super) async fn pause_if_over(&mut self) {
        self.turn.pause_if_over().await;
    }
}

impl ViewHandle {
    /// Returns whether both are handles of the same file or folder.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => Arc::ptr_eq(&one.node, &other.node),
            (Self::Folder(one), Self::Folder(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl View {
    /// Opens a file or folder, or creates a file.
    pub(crate) fn open(
        &self,
        base: &Arc<FolderNode>,
        path: &str,
        mode: OpenMode,
    ) -> Result<ViewHandle, Errno> {
        self.open_with_recorder(base, path, mode, None)
    }

    /// Opens a file or folder, or creates a file.
    ///
    /// If the call wrote code to the file and reads it through the returned handle, the handle
    /// notes that code in `recorder`.
    pub(crate) fn open_with_recorder(
        &self,
        base: &Arc<FolderNode>,
        path: &str,
        mode: OpenMode,
        recorder: Option<&ScriptRecorder>,
    ) -> Result<ViewHandle, Errno> {
        let handle = |file: FileHandle, name: &str| {
            let file = file.with_rights(mode.read, mode.write);
            ViewHandle::File(file.with_recorder(recorder, path, name))
        };
        let must_create = mode.create && mode.exclusive;
        if mode.create && mode.directory {
            return Err(Errno::INVAL);
        }
        let last = match (mode.create, mode.follow) {
            (true, follows) => LastLink::Created(follows && !must_create),
            (false, true) => LastLink::Followed,
            (false, false) => LastLink::NotFollowed,
        };
        let writes = mode.write || mode.truncate;
        let entry = match self.resolve(base, path, last)? {
            PathEnd::Folder(_) if must_create => return Err(Errno::EXIST),
            PathEnd::Folder(_) if mode.create || writes => return Err(Errno::ISDIR),
            PathEnd::Folder(folder) => return Ok(ViewHandle::Folder(folder)),
            PathEnd::Entry(entry) => entry,
        };
        if mode.create && entry.has_slash {
            return Err(Errno::ISDIR);
        }
        let PathEntry {
            parent,
            name,
            has_slash,
            found,
        } = entry;
        let Some(found) = found else {
            if !mode.create {
                return Err(Errno::NOENT);
            }
            let file = Arc::new(FileNode::empty(parent.budget())?);
            self.add_node(&parent, &name, Node::File(Arc::clone(&file)))?;
            let open = file.open(|_| Err(Errno::NOENT))?;
            return Ok(handle(open, &name));
        };
        if must_create {
            return Err(Errno::EXIST);
        }
        match found.kind() {
            FileType::Directory if mode.create || writes => Err(Errno::ISDIR),
            FileType::Directory => {
                let folder = self.folder_node(&parent, &name, found)?;
                Ok(ViewHandle::Folder(folder))
            }
            _ if mode.directory || has_slash => Err(Errno::NOTDIR),
            FileType::Symlink => Err(Errno::LOOP),
            FileType::RegularFile => {
                let Node::File(file) = self.node(&parent, &name, found)? else {
                    return Err(Errno::NOTSUP);
                };
                let open = self.open_file(&file)?;
                if mode.truncate {
                    open.clear()?;
                }
                Ok(handle(open, &name))
            }
            _ => Err(Errno::NOTSUP),
        }
    }

    /// Opens a file for reading and writing.
    pub(super) fn open_file(&self, file: &Arc<FileNode>) -> Result<FileHandle, Errno> {
        file.open(|path| {
            let lease = self.lease_descriptor()?;
            let found = self.disk.lookup(path, false);
            let PathTarget::File(seen) = found.map_err(|error| errno(&error))? else {
                return Err(Errno::ISDIR);
            };
            let file = seen.open().map_err(|error| errno(&error))?;
            Ok(OpenFile::new(file, lease))
        })
    }

    /// Lists a folder.
    pub(crate) fn list(&self, folder: &Arc<FolderNode>) -> Result<FolderListing, Errno> {
        let disk = match folder.disk_path() {
            None => None,
            Some(path) => {
                let lease = self.lease_descriptor()?;
                let entries = if path.as_os_str().is_empty() {
                    self.disk.entries()
                } else {
                    match self.disk.lookup(&path, false) {
                        Ok(PathTarget::Folder(folder)) => folder.entries(),
                        Ok(PathTarget::File(_)) => return Err(Errno::NOTDIR),
                        Err(error) => Err(error),
                    }
                };
                Some((entries.map_err(|error| errno(&error))?, lease))
            }
        };
        Ok(FolderListing::new(Arc::clone(folder), disk))
    }

    /// Returns the status of a handle.
    pub(crate) fn status(&self, handle: &ViewHandle) -> Result<NodeStatus, Errno> {
        match handle {
            ViewHandle::File(file) => file.status(),
            ViewHandle::Folder(folder) => folder.status(|path| self.disk_status(&path)),
        }
    }

    /// Returns the status of a path.
    pub(crate) fn status_at(
        &self,
        base: &Arc<FolderNode>,
        path: &str,
        follow: bool,
    ) -> Result<NodeStatus, Errno> {
        match self.look_up(base, path, follow)? {
            Existing::Folder(folder) => folder.status(|path| self.disk_status(&path)),
            Existing::Entry(_, _, FoundEntry::Disk(status)) => Ok(status.into()),
            Existing::Entry(_, _, FoundEntry::Node(node)) => self.status_of(&node),
        }
    }

    pub(super) fn status_of(&self, node: &Node) -> Result<NodeStatus, Errno> {
        match node {
            Node::File(file) => file.status(|path| self.disk_status(path)),
            Node::Folder(folder) => folder.status(|path| self.disk_status(&path)),
            Node::Link(link) => Ok(link.status()),
        }
    }

    /// Returns the target of a link.
    pub(crate) fn read_link(&self, base: &Arc<FolderNode>, path: &str) -> Result<String, Errno> {
        match self.look_up(base, path, false)? {
            Existing::Folder(_) => Err(Errno::INVAL),
            Existing::Entry(parent, name, found) => self.link_target(&parent, &name, &found),
        }
    }

    /// Sets the times of a handle.
    pub(crate) fn set_times(
        &self,
        handle: &ViewHandle,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) {
        match handle {
            ViewHandle::File(file) => file.node.set_times(accessed, modified),
            ViewHandle::Folder(folder) => folder.set_times(accessed, modified),
        }
    }

    /// Sets the times of a path.
    pub(crate) fn set_times_at(
        &self,
        base: &Arc<FolderNode>,
        path: &str,
        follow: bool,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<(), Errno> {
        let node = match self.look_up(base, path, follow)? {
            Existing::Folder(folder) => Node::Folder(folder),
            Existing::Entry(parent, name, found) => self.node(&parent, &name, found)?,
        };
        match node {
            Node::File(file) => file.set_times(accessed, modified),
            Node::Folder(folder) => folder.set_times(accessed, modified),
            Node::Link(link) => link.set_times(accessed, modified),
        }
        Ok(())
    }

    /// Creates a folder.
    pub(crate) fn make_folder(&self, base: &Arc<FolderNode>, path: &str) -> Result<(), Errno> {
        let entry = match self.resolve(base, path, LastLink::NeverFollowed)? {
            PathEnd::Folder(_) => return Err(Errno::EXIST),
            PathEnd::Entry(entry) => entry,
        };
        if entry.found.is_some() {
            return Err(Errno::EXIST);
        }
        let budget = entry.parent.budget();
        budget.check_depth(entry.parent.depth() + 1)?;
        let folder = FolderNode::empty(budget.charge_node()?);
        self.add_node(&entry.parent, &entry.name, Node::Folder(folder))
    }

    /// Creates a symlink. Refuses an absolute target, which would lead out of the folder.
    pub(crate) fn make_link(
        &self,
        base: &Arc<FolderNode>,
        path: &str,
        target: &str,
    ) -> Result<(), Errno> {
        if target.is_empty() {
            return Err(Errno::NOENT);
        }
        if target.starts_with('/') {
            return Err(Errno::PERM);
        }
        let entry = unused_entry(self.resolve(base, path, LastLink::NeverFollowed)?)?;
        let mut charge = entry.parent.budget().charge_node()?;
        charge.grow(target.len())?;
        let link = LinkNode::new(target.to_owned(), charge);
        self.add_node(&entry.parent, &entry.name, Node::Link(Arc::new(link)))
    }

    /// Creates a hard link to a file or link.
    pub(crate) fn make_hard_link(
        &self,
        (base, path, follow): (&Arc<FolderNode>, &str, bool),
        (new_base, new_path): (&Arc<FolderNode>, &str),
    ) -> Result<(), Errno> {
        let Existing::Entry(parent, name, found) = self.look_up(base, path, follow)? else {
            unused_entry(self.resolve(new_base, new_path, LastLink::NeverFollowed)?)?;
            return Err(Errno::PERM);
        };
        let entry = unused_entry(self.resolve(new_base, new_path, LastLink::NeverFollowed)?)?;
        if found.kind() == FileType::Directory {
            return Err(Errno::PERM);
        }
        let node = self.node(&parent, &name, found)?;
        if let Node::File(file) = &node {
            self.copy_file_up(file)?;
        }
        self.add_node(&entry.parent, &entry.name, node.clone())?;
        node.add_links(1);
        Ok(())
    }

    /// Removes a file or link.
    pub(crate) fn remove_file(&self, base: &Arc<FolderNode>, path: &str) -> Result<(), Errno> {
        let entry = match self.resolve(base, path, LastLink::NeverFollowed)? {
            PathEnd::Folder(_) => return Err(Errno::ISDIR),
            PathEnd::Entry(entry) => entry,
        };
        let found = entry.found.ok_or(Errno::NOENT)?;
        if found.kind() == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        if entry.has_slash {
            return Err(Errno::NOTDIR);
        }
        let hiding_charge = entry.parent.budget().charge_entry(&entry.name)?;
        if let Some(node) = entry.parent.detach(&entry.name, hiding_charge) {
            node.add_links(-1);
        }
        Ok(())
    }

    /// Removes an empty folder. `counter` counts the entries read to check that it is empty.
    pub(crate) async fn remove_folder(
        &self,
        base: &Arc<FolderNode>,
        path: &str,
        counter: &mut EntryCounter<'_>,
    ) -> Result<(), Errno> {
        let entry = match self.resolve(base, path, LastLink::NeverFollowed)? {
            PathEnd::Folder(_) => {
                let is_parent = path.trim_end_matches('/').ends_with("..");
                return Err(if is_parent {
                    Errno::NOTEMPTY
                } else {
                    Errno::INVAL
                });
            }
            PathEnd::Entry(entry) => entry,
        };
        let found = entry.found.ok_or(Errno::NOENT)?;
        let folder = self.folder_node(&entry.parent, &entry.name, found)?;
        self.check_empty(&folder, counter).await?;
        let status = self.status_of(&Node::Folder(Arc::clone(&folder)))?;
        let hiding_charge = entry.parent.budget().charge_entry(&entry.name)?;
        entry.parent.detach(&entry.name, hiding_charge);
        folder.remove(&status);
        Ok(())
    }

    /// Checks that a folder has no visible entries.
    pub(super) async fn check_empty(
        &self,
        folder: &Arc<FolderNode>,
        counter: &mut EntryCounter<'_>,
    ) -> Result<(), Errno> {
        let mut listing = self.list(folder)?;
        while let Some(entry) = listing.step().transpose() {
            counter.count().await?;
            match entry {
                Ok(None) => {}
                Ok(Some(_)) | Err(Errno::ILSEQ) => return Err(Errno::NOTEMPTY),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a new node under an unused name.
    fn add_node(&self, parent: &Arc<FolderNode>, name: &str, node: Node) -> Result<(), Errno> {
        if parent.is_removed() {
            return Err(Errno::NOENT);
        }
        let charge = parent.budget().charge_entry(name)?;
        parent.attach(name, node, charge);
        Ok(())
    }

    /// Resolves a path to a folder or entry that exists.
    fn look_up(&self, base: &Arc<FolderNode>, path: &str, follow: bool) -> Result<Existing, Errno> {
        let last = if follow {
            LastLink::Followed
        } else {
            LastLink::NotFollowed
        };
        let entry = match self.resolve(base, path, last)? {
            PathEnd::Folder(folder) => return Ok(Existing::Folder(folder)),
            PathEnd::Entry(entry) => entry,
        };
        let found = entry.found.ok_or(Errno::NOENT)?;
        if entry.has_slash && found.kind() != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok(Existing::Entry(entry.parent, entry.name, found))
    }
}

/// Returns the entry for a new file or link. Fails if the name is used.
fn unused_entry(end: PathEnd) -> Result<PathEntry, Errno> {
    match end {
        PathEnd::Folder(_) => Err(Errno::EXIST),
        PathEnd::Entry(entry) if entry.found.is_some() => Err(Errno::EXIST),
        PathEnd::Entry(entry) if entry.has_slash || entry.parent.is_removed() => Err(Errno::NOENT),
        PathEnd::Entry(entry) => Ok(entry),
    }
}
