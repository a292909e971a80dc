//! Files of a view: on the disk until the first write, then in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::budget::{BudgetCharge, ViewBudget};
use super::node::{NodeId, NodeStatus, Times, Timestamp, lock};
use crate::open_file::{OpenFile, read_part};
use crate::tool::limits::SCRIPT_BYTES;
use crate::tool::script::ScriptRecorder;
use skillhost_skills::guard::FileStatus;

/// A file in a view.
pub(super) struct FileNode {
    pub(super) id: NodeId,
    state: Mutex<FileState>,
    charge: BudgetCharge,
}

struct FileState {
    content: FileContent,
    /// True if the recorder has noted the current bytes in memory as possible code.
    is_noted: bool,
    links: u64,
    times: Times,
}

enum FileContent {
    /// A file on the disk, at this path in the call's folder. It is open while a handle
    /// uses it.
    Disk {
        path: PathBuf,
        opened: Weak<OpenFile>,
    },
    Memory(Arc<FileBytes>),
}

/// The bytes of a file in memory. They are charged until the last user drops them.
struct FileBytes {
    bytes: Vec<u8>,
    charge: BudgetCharge,
}

/// A file's bytes in the form that [`Bytes::from_owner`] needs.
struct SharedBytes(Arc<FileBytes>);

/// A handle of a file.
#[derive(Clone)]
pub(crate) struct FileHandle {
    pub(super) node: Arc<FileNode>,
    /// The open file, if it was on the disk when the handle was created.
    disk: Option<Arc<OpenFile>>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    names: Option<HandleNames>,
}

/// The names with which a file was opened. They decide whether the recorder notes the file's
/// bytes as code.
#[derive(Clone)]
struct HandleNames {
    recorder: ScriptRecorder,
    /// The requested path, and the file's own name if symlinks led to it.
    names: Arc<[String; 2]>,
}

impl FileNode {
    /// Creates an empty file.
    pub(super) fn empty(budget: &Arc<ViewBudget>) -> Result<Self, Errno> {
        let content = FileContent::Memory(Arc::new(FileBytes::empty(budget)));
        Ok(Self {
            id: NodeId::new(),
            state: Mutex::new(FileState {
                content,
                is_noted: false,
                links: 1,
                times: Times::new(),
            }),
            charge: budget.charge_node()?,
        })
    }

    /// Creates the node of a file on the disk.
    pub(super) fn on_disk(status: &FileStatus, path: PathBuf, charge: BudgetCharge) -> Self {
        let content = FileContent::Disk {
            path,
            opened: Weak::new(),
        };
        Self {
            id: NodeId::of(status),
            state: Mutex::new(FileState {
                content,
                is_noted: false,
                links: status.links,
                times: Times::default(),
            }),
            charge,
        }
    }

    /// Returns a handle. `open` opens a file on the disk through the guard.
    pub(super) fn open(
        self: &Arc<Self>,
        open: impl FnOnce(&Path) -> Result<OpenFile, Errno>,
    ) -> Result<FileHandle, Errno> {
        let disk = match &mut lock(&self.state).content {
            FileContent::Memory(_) => None,
            FileContent::Disk { path, opened } => Some(match opened.upgrade() {
                Some(file) => file,
                None => {
                    let file = Arc::new(open(path)?);
                    *opened = Arc::downgrade(&file);
                    file
                }
            }),
        };
        Ok(FileHandle {
            node: Arc::clone(self),
            disk,
            readable: true,
            writable: true,
            names: None,
        })
    }

    /// Returns the path on the disk, or `None` once the content is in memory.
    pub(super) fn disk_path(&self) -> Option<PathBuf> {
        match &lock(&self.state).content {
            FileContent::Disk { path, .. } => Some(path.clone()),
            FileContent::Memory(_) => None,
        }
    }

    /// Returns the bytes without a copy, if they are in memory.
    pub(super) fn bytes(&self) -> Option<Bytes> {
        match &lock(&self.state).content {
            FileContent::Disk { .. } => None,
            FileContent::Memory(bytes) => Some(Bytes::from_owner(SharedBytes(Arc::clone(bytes)))),
        }
    }

    /// Returns the status. Calls `on_disk` to read the status of the disk's file, unless the
    /// content is in memory.
    pub(super) fn status(
        &self,
        on_disk: impl FnOnce(&Path) -> Result<FileStatus, Errno>,
    ) -> Result<NodeStatus, Errno> {
        let state = lock(&self.state);
        let size = match &state.content {
            FileContent::Memory(bytes) => bytes.bytes.len() as u64,
            FileContent::Disk { path, .. } => {
                let status = NodeStatus::from(on_disk(path)?);
                return Ok(NodeStatus {
                    id: self.id,
                    links: state.links,
                    ..status.with_times(state.times)
                });
            }
        };
        let (links, times) = (state.links, state.times);
        Ok(NodeStatus::in_memory(
            self.id,
            FileType::RegularFile,
            links,
            size,
            times,
        ))
    }

    pub(super) fn set_times(&self, accessed: Option<Timestamp>, modified: Option<Timestamp>) {
        lock(&self.state).times.set(accessed, modified);
    }

    /// Changes the number of hard links and the times.
    pub(super) fn change_links(&self, change: impl FnOnce(&mut u64, &mut Times)) {
        let state = &mut *lock(&self.state);
        change(&mut state.links, &mut state.times);
    }
}

impl FileHandle {
    /// Returns the handle with these rights.
    pub(super) fn with_rights(self, readable: bool, writable: bool) -> Self {
        Self {
            readable,
            writable,
            ..self
        }
    }

    /// Makes this handle note code in a recorder.
    ///
    /// Bytes are code if the call wrote them to the file and then reads them from this handle, and
    /// if the file's name or the requested path may name a module.
    pub(super) fn with_recorder(
        self,
        recorder: Option<&ScriptRecorder>,
        requested: &str,
        name: &str,
    ) -> Self {
        let names = recorder.map(|recorder| HandleNames {
            recorder: recorder.clone(),
            names: Arc::new([requested.to_owned(), name.to_owned()]),
        });
        Self { names, ..self }
    }

    /// Returns the open file and its path in the call's folder, or `None` once the content is in
    /// memory.
    pub(crate) fn disk_file(&self) -> Option<(PathBuf, &OpenFile)> {
        Some((self.node.disk_path()?, self.disk.as_deref()?))
    }

    /// Returns the current status.
    pub(crate) fn status(&self) -> Result<NodeStatus, Errno> {
        self.node.status(|_| {
            let file = self.disk.as_ref().ok_or(Errno::BADF)?;
            file.status().map_err(|error| errno(&error))
        })
    }

    /// Reads up to `length` bytes. Also returns whether the file ended before `length` bytes.
    pub(crate) fn read_at(&self, length: u64, offset: u64) -> Result<(Vec<u8>, bool), Errno> {
        if !self.readable {
            return Err(Errno::BADF);
        }
        let mut state = lock(&self.node.state);
        if let FileContent::Memory(bytes) = &state.content {
            let read = read_part(&bytes.bytes, length, offset);
            if !state.is_noted
                && let Some(names) = &self.names
            {
                state.is_noted = names.note(&bytes.bytes)?;
            }
            return Ok(read);
        }
        drop(state);
        let file = self.disk.as_ref().ok_or(Errno::BADF)?;
        file.read_at(length, offset).map_err(|error| errno(&error))
    }

    /// Writes bytes at a position, all or nothing. Fills a gap after the end with zeroes.
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        if bytes.is_empty() && self.writable {
            return Ok(());
        }
        self.change(|file| {
            let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
            let end = start.checked_add(bytes.len()).ok_or(Errno::FBIG)?;
            file.resize(end.max(file.bytes.len()))?;
            file.bytes[start..end].copy_from_slice(bytes);
            Ok(())
        })
    }

    /// Writes bytes at the end.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<(), Errno> {
        let end = self.status()?.size;
        self.write_at(bytes, end)
    }

    /// Truncates the file to a size, or extends it with zeroes.
    pub(crate) fn set_size(&self, size: u64) -> Result<(), Errno> {
        if !self.writable {
            return Err(Errno::BADF);
        }
        if size == 0 {
            return self.clear();
        }
        let size = usize::try_from(size).map_err(|_| Errno::FBIG)?;
        self.change(|file| file.resize(size))
    }

    /// Truncates the file to zero bytes without reading it.
    pub(super) fn clear(&self) -> Result<(), Errno> {
        let budget = self.node.charge.budget();
        let empty = FileBytes::empty(budget);
        let status = self.status()?;
        let state = &mut *lock(&self.node.state);
        state.content = FileContent::Memory(Arc::new(empty));
        state.is_noted = false;
        state.times = Times::of(&status);
        state.times.touch();
        Ok(())
    }

    /// Copies a file from the disk into memory.
    pub(super) fn copy_up(&self) -> Result<(), Errno> {
        let Some(file) = &self.disk else {
            return Ok(());
        };
        if let FileContent::Memory(_) = lock(&self.node.state).content {
            return Ok(());
        }
        let status = self.status()?;
        let bytes = FileBytes::read(file, status.size, self.node.charge.budget())?;
        let state = &mut *lock(&self.node.state);
        state.content = FileContent::Memory(Arc::new(bytes));
        state.times = Times::of(&status);
        Ok(())
    }

    fn change(
        &self,
        change: impl FnOnce(&mut FileBytes) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if !self.writable {
            return Err(Errno::BADF);
        }
        self.copy_up()?;
        let state = &mut *lock(&self.node.state);
        let FileContent::Memory(bytes) = &mut state.content else {
            return Err(Errno::BADF);
        };
        // The bytes are only shared after the call has ended.
        change(Arc::get_mut(bytes).ok_or(Errno::TXTBSY)?)?;
        state.is_noted = false;
        state.times.touch();
        Ok(())
    }
}

impl HandleNames {
    /// Notes bytes that the call wrote and now reads. Returns whether they may be code.
    ///
    /// Fails if the bytes exceed the size limit of a script, or if the call has too much code.
    fn note(&self, bytes: &[u8]) -> Result<bool, Errno> {
        let may_be_module = |name: &String| self.recorder.may_be_module(Path::new(name));
        if !self.names.iter().any(may_be_module) {
            return Ok(false);
        }
        if bytes.len() as u64 > SCRIPT_BYTES {
            return Err(Errno::FBIG);
        }
        // Empty files are not code. Every new file starts empty.
        if bytes.is_empty() || self.recorder.add_written_code(bytes) {
            Ok(true)
        } else {
            Err(Errno::NOMEM)
        }
    }
}

impl FileBytes {
    fn empty(budget: &Arc<ViewBudget>) -> Self {
        Self {
            bytes: Vec::new(),
            charge: budget.empty_charge(),
        }
    }

    /// Reads a file that had `size` bytes when it was found.
    fn read(file: &OpenFile, size: u64, budget: &Arc<ViewBudget>) -> Result<Self, Errno> {
        let size = usize::try_from(size).map_err(|_| Errno::NOSPC)?;
        let mut charge = budget.charge_bytes(size)?;
        let read = file.read_at(size as u64, 0);
        let (bytes, _) = read.map_err(|error| errno(&error))?;
        charge.shrink(size - bytes.capacity().min(size));
        Ok(Self { bytes, charge })
    }

    /// Truncates the bytes to a size, or extends them with zeroes.
    fn resize(&mut self, size: usize) -> Result<(), Errno> {
        let capacity = self.bytes.capacity();
        if size > capacity {
            // Doubles the capacity, so that not every small write copies all bytes. Grows
            // by just enough if the budget does not allow more.
            let doubled = capacity.saturating_mul(2).max(size);
            let mut more = doubled - capacity;
            if self.charge.grow(more).is_err() {
                more = size - capacity;
                self.charge.grow(more)?;
            }
            let additional = capacity + more - self.bytes.len();
            if self.bytes.try_reserve_exact(additional).is_err() {
                self.charge.shrink(more);
                return Err(Errno::NOSPC);
            }
        }
        self.bytes.resize(size, 0);
        if size < self.bytes.capacity() / 4 {
            let before = self.bytes.capacity();
            self.bytes.shrink_to(size);
            let less = before - self.bytes.capacity().min(before);
            self.charge.shrink(less);
        }
        Ok(())
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// Returns the error number of a file system error. cap-std's own error for a path that leads out
/// of a folder has no number.
pub(super) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(match error.kind() {
        io::ErrorKind::PermissionDenied => Errno::PERM,
        _ => Errno::IO,
    })
}
