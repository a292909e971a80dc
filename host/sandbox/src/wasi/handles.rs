//! A guest's handles of files, folders and listings. Handles of the disk are read-only. Handles
//! of the call's copy-on-write view are not. `filesystem.rs` offers both to guests.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::open_file::OpenFile;
use crate::view::{FileHandle, FolderListing, FolderNode, NodeStatus, View, ViewHandle};
use skillhost_skills::descriptors::DescriptorLease;
use skillhost_skills::entries::ListedEntries;
use skillhost_skills::guard::Folder;

/// A handle of a file or folder.
pub(super) enum Descriptor {
    DiskFile(Arc<OpenFile>),
    DiskFolder {
        folder: Arc<Folder>,
        _lease: Option<DescriptorLease>,
    },
    View(Arc<View>, ViewHandle),
}

/// The file of a handle.
pub(super) enum GuestFile {
    Disk(Arc<OpenFile>),
    View(FileHandle),
}

/// The folder of a handle.
#[derive(Clone, Copy)]
pub(super) enum GuestFolder<'a> {
    Disk(&'a Arc<Folder>),
    View(&'a Arc<View>, &'a Arc<FolderNode>),
}

/// A listing in progress. Entries are read when the guest asks for them, so the host does not
/// store them.
pub(super) enum GuestListing {
    Disk {
        entries: ListedEntries,
        _lease: DescriptorLease,
    },
    View(FolderListing),
}

impl Descriptor {
    /// Returns a handle of the call's folder. It has no lease, because the host opened it.
    pub(super) fn preopen(folder: Arc<Folder>) -> Self {
        let _lease = None;
        Self::DiskFolder { folder, _lease }
    }

    /// Returns the file, or `None` for a folder.
    pub(super) fn file(&self) -> Option<GuestFile> {
        match self {
            Self::DiskFile(file) => Some(GuestFile::Disk(Arc::clone(file))),
            Self::View(_, ViewHandle::File(file)) => Some(GuestFile::View(file.clone())),
            _ => None,
        }
    }

    /// Returns the folder, or `None` for a file.
    pub(super) fn folder(&self) -> Option<GuestFolder<'_>> {
        match self {
            Self::DiskFolder { folder, .. } => Some(GuestFolder::Disk(folder)),
            Self::View(view, ViewHandle::Folder(folder)) => Some(GuestFolder::View(view, folder)),
            _ => None,
        }
    }

    /// Returns the current status.
    pub(super) fn status(&self) -> io::Result<NodeStatus> {
        Ok(match self {
            Self::DiskFile(file) => file.status()?.into(),
            Self::DiskFolder { folder, .. } => folder.status()?.into(),
            Self::View(view, handle) => view.status(handle)?,
        })
    }

    /// Returns whether both are handles of the same file or folder.
    pub(super) fn is_same(&self, other: &Self) -> io::Result<bool> {
        match (self, other) {
            (Self::View(_, one), Self::View(_, other)) => Ok(one.is_same(other)),
            _ => Ok(self.status()?.id == other.status()?.id),
        }
    }
}

impl GuestFile {
    pub(super) fn is_readable(&self) -> bool {
        match self {
            Self::Disk(_) => true,
            Self::View(file) => file.readable,
        }
    }

    /// Reads up to `length` bytes. Also returns whether the file ended before `length` bytes.
    pub(super) fn read_at(&self, length: u64, offset: u64) -> io::Result<(Vec<u8>, bool)> {
        match self {
            Self::Disk(file) => file.read_at(length, offset),
            Self::View(file) => Ok(file.read_at(length, offset)?),
        }
    }

    /// Reads up to `length` bytes, possibly fewer than the file has. Returns no bytes at the
    /// end of the file.
    pub(super) fn read_some(&self, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::Disk(file) => file.read_some(length, offset),
            Self::View(file) => Ok(file.read_at(length as u64, offset)?.0),
        }
    }
}

impl GuestFolder<'_> {
    /// Returns the status of a path.
    pub(super) fn status_at(self, path: &str, follow: bool) -> io::Result<NodeStatus> {
        Ok(match self {
            Self::Disk(folder) => folder.status_at(Path::new(path), follow)?.into(),
            Self::View(view, folder) => view.status_at(folder, path, follow)?,
        })
    }

    /// Returns the target of a symlink.
    pub(super) fn read_link(self, path: &str) -> io::Result<String> {
        match self {
            Self::Disk(folder) => {
                let target = folder.read_link(Path::new(path))?.into_os_string();
                Ok(target.into_string().map_err(|_| Errno::ILSEQ)?)
            }
            Self::View(view, folder) => Ok(view.read_link(folder, path)?),
        }
    }
}

impl GuestListing {
    /// Reads one entry. Returns `None` at the end, and `Some(None)` for an entry of the disk that
    /// listings omit or the view hides.
    pub(super) fn step(&mut self) -> io::Result<Option<Option<(String, FileType)>>> {
        match self {
            Self::Disk { entries, .. } => {
                let Some(step) = entries.next().transpose()? else {
                    return Ok(None);
                };
                let Some(entry) = step else {
                    return Ok(Some(None));
                };
                let name = entry.name.into_string().map_err(|_| Errno::ILSEQ)?;
                Ok(Some(Some((name, entry.kind))))
            }
            Self::View(listing) => Ok(listing.step()?),
        }
    }
}
