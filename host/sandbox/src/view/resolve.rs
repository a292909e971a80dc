//! Resolves paths in a view: looks each step up in the merged folder, and follows symlinks. No
//! path leads out of the folder in which it starts.

use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::View;
use super::file::{FileNode, errno};
use super::folder::{FolderNode, Node};
use super::link::LinkNode;
use skillhost_skills::guard::FileStatus;

/// The maximum number of symlinks in a path, as on Linux. Guards against: loops of links.
const MAX_LINKS: usize = 40;

/// The maximum length of a name in bytes, as on Linux.
const MAX_NAME: usize = 255;

/// The treatment of a symlink at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    /// The path names the link itself, even if it ends in a slash.
    NeverFollowed,
    /// The path names the link itself, unless it ends in a slash.
    NotFollowed,
    Followed,
    /// The path names a file that is created if it is missing. If `true`, a link is followed,
    /// unless the path ends in a slash.
    Created(bool),
}

/// The result of resolving a path.
pub(super) enum PathEnd {
    /// A folder without a name, because the path ends in `.` or `..`.
    Folder(Arc<FolderNode>),
    Entry(PathEntry),
}

/// A name in a folder, and its entry.
pub(super) struct PathEntry {
    pub(super) parent: Arc<FolderNode>,
    pub(super) name: String,
    /// True if a slash follows the name.
    pub(super) has_slash: bool,
    pub(super) found: Option<FoundEntry>,
}

/// An existing entry.
pub(super) enum FoundEntry {
    Node(Node),
    /// An entry on the disk that has no node yet.
    Disk(FileStatus),
}

impl FoundEntry {
    pub(super) fn kind(&self) -> FileType {
        match self {
            Self::Node(node) => node.kind(),
            Self::Disk(status) => status.kind,
        }
    }
}

impl View {
    /// Resolves a path from a folder.
    pub(super) fn resolve(
        &self,
        base: &Arc<FolderNode>,
        path: &str,
        last: LastLink,
    ) -> Result<PathEnd, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let mut steps = Vec::new();
        let mut has_slash = push_steps(&mut steps, path)?;
        let mut folders = vec![Arc::clone(base)];
        let mut links = 0;
        while let Some(step) = steps.pop() {
            let here = folders.last().ok_or(Errno::NOENT)?;
            match step.as_str() {
                "." => continue,
                ".." => {
                    if folders.len() == 1 {
                        return Err(Errno::PERM);
                    }
                    folders.pop();
                    continue;
                }
                _ => {}
            }
            let found = self.find(here, &step)?;
            let is_last = steps.is_empty();
            let follows = match last {
                LastLink::NeverFollowed => !is_last,
                LastLink::NotFollowed => !is_last || has_slash,
                LastLink::Followed => true,
                LastLink::Created(follows) => !is_last || (follows && !has_slash),
            };
            if let Some(found) = &found
                && follows
                && found.kind() == FileType::Symlink
            {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = self.link_target(here, &step, found)?;
                let ends_in_slash = push_steps(&mut steps, &target)?;
                has_slash |= is_last && ends_in_slash;
                continue;
            }
            if is_last {
                return Ok(PathEnd::Entry(PathEntry {
                    parent: Arc::clone(here),
                    name: step,
                    has_slash,
                    found,
                }));
            }
            let found = found.ok_or(Errno::NOENT)?;
            let folder = self.folder_node(here, &step, found)?;
            folders.push(folder);
        }
        let folder = folders.pop().ok_or(Errno::NOENT)?;
        Ok(PathEnd::Folder(folder))
    }

    /// Looks a name up in a folder.
    pub(super) fn find(
        &self,
        folder: &Arc<FolderNode>,
        name: &str,
    ) -> Result<Option<FoundEntry>, Errno> {
        if name.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG);
        }
        if let Some(node) = folder.entry(name) {
            return Ok(Some(FoundEntry::Node(node)));
        }
        let Some(path) = folder.disk_path_of(name) else {
            return Ok(None);
        };
        match self.disk_status(&path) {
            Ok(status) => Ok(Some(FoundEntry::Disk(status))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the node of an entry. Creates it if necessary.
    pub(super) fn node(
        &self,
        parent: &Arc<FolderNode>,
        name: &str,
        found: FoundEntry,
    ) -> Result<Node, Errno> {
        let status = match found {
            FoundEntry::Node(node) => return Ok(node),
            FoundEntry::Disk(status) => status,
        };
        let path = parent.disk_path_of(name).ok_or(Errno::NOENT)?;
        let budget = parent.budget();
        let node = match status.kind {
            FileType::RegularFile => {
                let charge = budget.charge_disk_node(&path)?;
                Node::File(Arc::new(FileNode::on_disk(&status, path, charge)))
            }
            FileType::Directory => {
                budget.check_depth(parent.depth() + 1)?;
                let charge = budget.charge_disk_node(&path)?;
                Node::Folder(FolderNode::on_disk(&status, path, charge))
            }
            FileType::Symlink => {
                let target = self.disk_link_target(&path);
                let mut charge = budget.charge_node()?;
                charge.grow(target.as_ref().map_or(0, String::len))?;
                Node::Link(Arc::new(LinkNode::on_disk(status, target, charge)))
            }
            _ => return Err(Errno::NOTSUP),
        };
        parent.intern(name, node.clone())?;
        Ok(node)
    }

    pub(super) fn folder_node(
        &self,
        parent: &Arc<FolderNode>,
        name: &str,
        found: FoundEntry,
    ) -> Result<Arc<FolderNode>, Errno> {
        if found.kind() != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        match self.node(parent, name, found)? {
            Node::Folder(folder) => Ok(folder),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Returns the target of a link.
    pub(super) fn link_target(
        &self,
        parent: &Arc<FolderNode>,
        name: &str,
        found: &FoundEntry,
    ) -> Result<String, Errno> {
        match found {
            FoundEntry::Node(Node::Link(link)) => link.target.clone(),
            FoundEntry::Disk(_) => {
                let path = parent.disk_path_of(name).ok_or(Errno::NOENT)?;
                self.disk_link_target(&path)
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// Returns the target of a link on the disk. The guard refuses absolute targets, and
    /// entries that are not links.
    fn disk_link_target(&self, path: &Path) -> Result<String, Errno> {
        let target = self.disk.read_link(path).map_err(|error| errno(&error))?;
        let target = target.into_os_string().into_string();
        target.map_err(|_| Errno::ILSEQ)
    }

    /// Returns the status of an entry on the disk.
    pub(super) fn disk_status(&self, path: &Path) -> Result<FileStatus, Errno> {
        let status = if path.as_os_str().is_empty() {
            self.disk.status()
        } else {
            self.disk.status_at(path, false)
        };
        status.map_err(|error| errno(&error))
    }
}

/// Pushes the steps of a path onto a stack, with the first on top. Returns whether the path
/// ends in a slash.
fn push_steps(steps: &mut Vec<String>, path: &str) -> Result<bool, Errno> {
    if path.starts_with('/') {
        return Err(Errno::PERM);
    }
    let names = path.rsplit('/').filter(|name| !name.is_empty());
    steps.extend(names.map(str::to_owned));
    Ok(path.ends_with('/'))
}
