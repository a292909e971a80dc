//! `wasi:filesystem/types` on the call's folder, which is read-only, or on its copy-on-write
//! view. On the disk, functions that change something fail with `read-only` and never reach
//! the file system. `handles.rs` has the handles, and `view.rs` the view. `entries.rs` has
//! the functions that may read many entries of folders.

mod entries;

use std::hash::{BuildHasher as _, Hash};
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor as WasiDescriptor;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode as Code;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream,
    ErrorCode, Filesize, Host, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue,
    NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

use super::ImportState;
use super::handles::{Descriptor, GuestFile, GuestFolder, GuestListing};
use super::streams::{FileInput, FileOutput, WritePosition};
use crate::open_file::OpenFile;
use crate::tool::Stop;
use crate::tool::limits;
use crate::view::{FileHandle, FolderNode, NodeStatus, OpenMode, Timestamp, View, ViewHandle, now};
use skillhost_skills::descriptors::DescriptorLease;
use skillhost_skills::guard::{Folder, PathTarget};

pub(super) use entries::link as link_entries;

/// A handle with the type of the WASI bindings.
type Handle = Resource<WasiDescriptor>;

/// Converts a handle between the type of the WASI bindings and the type of the entry in the
/// sandbox's table. Both handles refer to the same entry. The table checks its type at each use.
pub(super) fn retyped<T: 'static, U: 'static>(handle: Resource<T>) -> Resource<U> {
    if handle.owned() {
        Resource::new_own(handle.rep())
    } else {
        Resource::new_borrow(handle.rep())
    }
}

impl ImportState {
    fn descriptor(&self, handle: Handle) -> FsResult<&Descriptor> {
        Ok(self.table.get(&retyped::<_, Descriptor>(handle))?)
    }

    fn folder(&self, handle: Handle) -> FsResult<GuestFolder<'_>> {
        let folder = self.descriptor(handle)?.folder();
        Ok(folder.ok_or(Code::NotDirectory)?)
    }

    fn file(&self, handle: Handle) -> FsResult<GuestFile> {
        let file = self.descriptor(handle)?.file();
        Ok(file.ok_or(Code::IsDirectory)?)
    }

    /// Returns the view of a handle, and the handle within the view, so that a caller can change
    /// something. Refuses a handle of the disk.
    fn changeable(&self, handle: Handle) -> FsResult<(&Arc<View>, &ViewHandle)> {
        match self.descriptor(handle)? {
            Descriptor::View(view, handle) => Ok((view, handle)),
            _ => Err(Code::ReadOnly.into()),
        }
    }

    fn writable_folder(&self, handle: Handle) -> FsResult<(Arc<View>, Arc<FolderNode>)> {
        match self.changeable(handle)? {
            (view, ViewHandle::Folder(folder)) => Ok((Arc::clone(view), Arc::clone(folder))),
            (_, ViewHandle::File(_)) => Err(Code::NotDirectory.into()),
        }
    }

    fn writable_file(&self, handle: Handle) -> FsResult<&FileHandle> {
        match self.changeable(handle)?.1 {
            ViewHandle::File(file) if file.writable => Ok(file),
            ViewHandle::File(_) => Err(Code::BadDescriptor.into()),
            ViewHandle::Folder(_) => Err(Code::IsDirectory.into()),
        }
    }

    fn status(&mut self, handle: Handle) -> FsResult<NodeStatus> {
        let status = self.descriptor(handle)?.status();
        self.with_wasi_code(status)
    }

    fn status_at(&mut self, handle: Handle, flags: PathFlags, path: &str) -> FsResult<NodeStatus> {
        let folder = self.folder(handle)?;
        valid_path(path)?;
        let status = folder.status_at(path, follows(flags));
        self.with_wasi_code(status)
    }

    /// Makes a change at a path in the view.
    fn change_at(
        &mut self,
        handle: Handle,
        path: &str,
        change: impl FnOnce(&View, &Arc<FolderNode>) -> Result<(), Errno>,
    ) -> FsResult<()> {
        let (view, folder) = self.writable_folder(handle)?;
        valid_path(path)?;
        let changed = change(&view, &folder);
        self.with_wasi_code(changed)
    }

    fn open_on_disk(
        &mut self,
        folder: &Arc<Folder>,
        path: &str,
        mode: OpenMode,
    ) -> FsResult<Descriptor> {
        let lease = self.lease_descriptor()?;
        let found = folder.lookup(valid_path(path)?, mode.follow);
        match self.with_wasi_code(found)? {
            PathTarget::Folder(folder) => Ok(Descriptor::DiskFolder {
                folder: Arc::new(folder),
                _lease: Some(lease),
            }),
            PathTarget::File(_) if mode.directory => Err(Code::NotDirectory.into()),
            PathTarget::File(seen) => {
                let opened = seen.open();
                let file = OpenFile::new(self.with_wasi_code(opened)?, lease);
                self.note_opened(Some(folder), path, &file, |root| {
                    root.path_of(file.file()).ok_or(Code::Busy)
                })?;
                Ok(Descriptor::DiskFile(Arc::new(file)))
            }
        }
    }

    fn open_in_view(
        &mut self,
        view: Arc<View>,
        base: &Arc<FolderNode>,
        path: &str,
        mode: OpenMode,
    ) -> FsResult<Descriptor> {
        valid_path(path)?;
        let gate = self.scripts.as_ref();
        let recorder = gate.map(|gate| gate.recorder.clone());
        let opened = view.open_with_recorder(base, path, mode, recorder.as_ref());
        let opened = self.with_wasi_code(opened)?;
        if let ViewHandle::File(file) = &opened
            && let Some((disk_path, open_file)) = file.disk_file()
        {
            self.note_opened(None, path, open_file, |_| Ok(disk_path))?;
        }
        Ok(Descriptor::View(view, opened))
    }

    fn output_stream(
        &mut self,
        handle: Handle,
        position: WritePosition,
    ) -> FsResult<Resource<DynOutputStream>> {
        let file = self.writable_file(handle)?.clone();
        let stream: DynOutputStream = Box::new(FileOutput::new(file, position));
        Ok(self.table.push(stream)?)
    }

    /// Returns a hash that identifies a file without revealing its device and inode. The key
    /// is secret and specific to the call: with a known key, a guest could find the numbers
    /// by trial.
    fn hash(&self, id: impl Hash) -> MetadataHashValue {
        let half = |index: u8| self.hash_key.hash_one((index, &id));
        MetadataHashValue {
            lower: half(0),
            upper: half(1),
        }
    }

    /// Counts an entry that is read from a folder. Stops the call if the limit is exceeded.
    fn count_entry(&mut self) -> Result<(), Code> {
        let (limit, remaining) = &mut self.directory_entries;
        let Some(rest) = remaining.checked_sub(1) else {
            self.stop = Some(Stop::DirectoryEntries(*limit));
            return Err(Code::Overflow);
        };
        *remaining = rest;
        Ok(())
    }

    /// Leases a descriptor for opening a file or folder.
    pub(super) fn lease_descriptor(&mut self) -> Result<DescriptorLease, Code> {
        let lease = self.descriptors.lease();
        lease.ok_or_else(|| self.code_or_stop(Errno::MFILE))
    }

    /// Converts the error of a result to its WASI code. Stops the call if no descriptors are left.
    fn with_wasi_code<T>(&mut self, result: Result<T, impl Into<io::Error>>) -> FsResult<T> {
        Ok(result.map_err(|error| self.code_or_stop(error))?)
    }

    /// Returns the WASI code of an error. If no descriptors are left, also stops the call.
    pub(super) fn code_or_stop(&mut self, error: impl Into<io::Error>) -> Code {
        let error = error.into();
        if Errno::from_io_error(&error) == Some(Errno::MFILE) {
            self.stop = Some(Stop::Busy);
            return Code::Busy;
        }
        error_code(error)
    }
}

impl Host for &mut ImportState {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        Ok(error.downcast()?.into())
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        let code = error.downcast_ref::<io::Error>().map(Code::from);
        Ok(code.map(Into::into))
    }
}

impl HostDescriptor for &mut ImportState {
    fn open_at(
        &mut self,
        handle: Handle,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Handle> {
        let mode = OpenMode {
            follow: follows(path_flags),
            create: open_flags.contains(OpenFlags::CREATE),
            exclusive: open_flags.contains(OpenFlags::EXCLUSIVE),
            truncate: open_flags.contains(OpenFlags::TRUNCATE),
            directory: open_flags.contains(OpenFlags::DIRECTORY),
            read: flags.contains(DescriptorFlags::READ),
            write: flags.contains(DescriptorFlags::WRITE),
        };
        let changing = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
        let writing = DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY;
        let opened = match self.folder(handle)? {
            GuestFolder::View(view, base) => {
                let (view, base) = (Arc::clone(view), Arc::clone(base));
                self.open_in_view(view, &base, &path, mode)?
            }
            GuestFolder::Disk(_)
                if open_flags.intersects(changing) || flags.intersects(writing) =>
            {
                return Err(Code::ReadOnly.into());
            }
            GuestFolder::Disk(folder) => {
                let folder = Arc::clone(folder);
                self.open_on_disk(&folder, &path, mode)?
            }
        };
        Ok(retyped(self.table.push(opened)?))
    }

    fn read(
        &mut self,
        handle: Handle,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let file = self.file(handle)?;
        let read = file.read_at(length.min(limits::READ_BYTES), offset);
        self.with_wasi_code(read)
    }

    fn read_via_stream(
        &mut self,
        handle: Handle,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let file = self.file(handle)?;
        if !file.is_readable() {
            return Err(Code::BadDescriptor.into());
        }
        let stream: DynInputStream = Box::new(FileInput::new(file, offset));
        Ok(self.table.push(stream)?)
    }

    fn stat(&mut self, handle: Handle) -> FsResult<DescriptorStat> {
        Ok(stat(&self.status(handle)?))
    }

    fn stat_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        Ok(stat(&self.status_at(handle, flags, &path)?))
    }

    fn read_directory(&mut self, handle: Handle) -> FsResult<Resource<DirectoryEntryStream>> {
        let listing = match self.folder(handle)? {
            GuestFolder::View(view, folder) => {
                let listing = view.list(folder);
                GuestListing::View(self.with_wasi_code(listing)?)
            }
            GuestFolder::Disk(folder) => {
                let folder = Arc::clone(folder);
                let lease = self.lease_descriptor()?;
                let entries = folder.entries();
                GuestListing::Disk {
                    entries: self.with_wasi_code(entries)?,
                    _lease: lease,
                }
            }
        };
        Ok(retyped(self.table.push(listing)?))
    }

    fn readlink_at(&mut self, handle: Handle, path: String) -> FsResult<String> {
        let folder = self.folder(handle)?;
        valid_path(&path)?;
        let target = folder.read_link(&path);
        self.with_wasi_code(target)
    }

    fn get_flags(&mut self, handle: Handle) -> FsResult<DescriptorFlags> {
        Ok(match self.descriptor(handle)? {
            Descriptor::DiskFile(_) | Descriptor::DiskFolder { .. } => DescriptorFlags::READ,
            Descriptor::View(_, ViewHandle::Folder(_)) => {
                DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY
            }
            Descriptor::View(_, ViewHandle::File(file)) => {
                let mut flags = DescriptorFlags::empty();
                if file.readable {
                    flags |= DescriptorFlags::READ;
                }
                if file.writable {
                    flags |= DescriptorFlags::WRITE;
                }
                flags
            }
        })
    }

    fn get_type(&mut self, handle: Handle) -> FsResult<DescriptorType> {
        Ok(if self.descriptor(handle)?.folder().is_some() {
            DescriptorType::Directory
        } else {
            DescriptorType::RegularFile
        })
    }

    fn is_same_object(&mut self, a: Handle, b: Handle) -> wasmtime::Result<bool> {
        Ok(self.descriptor(a)?.is_same(self.descriptor(b)?)?)
    }

    fn metadata_hash(&mut self, handle: Handle) -> FsResult<MetadataHashValue> {
        let id = self.status(handle)?.id;
        Ok(self.hash(id))
    }

    fn metadata_hash_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let id = self.status_at(handle, flags, &path)?.id;
        Ok(self.hash(id))
    }

    fn advise(&mut self, handle: Handle, _: Filesize, _: Filesize, _: Advice) -> FsResult<()> {
        // WASI allows an implementation to ignore advice.
        self.descriptor(handle)?;
        Ok(())
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        self.table.delete(retyped::<_, Descriptor>(handle))?;
        Ok(())
    }

    // The following functions change something.

    fn write_via_stream(
        &mut self,
        handle: Handle,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.output_stream(handle, WritePosition::At(offset))
    }

    fn append_via_stream(&mut self, handle: Handle) -> FsResult<Resource<DynOutputStream>> {
        self.output_stream(handle, WritePosition::End)
    }

    fn sync(&mut self, handle: Handle) -> FsResult<()> {
        // Written data is in memory, so there is nothing to sync.
        self.changeable(handle)?;
        Ok(())
    }

    fn sync_data(&mut self, handle: Handle) -> FsResult<()> {
        self.sync(handle)
    }

    fn set_size(&mut self, handle: Handle, size: Filesize) -> FsResult<()> {
        let set = self.writable_file(handle)?.set_size(size);
        self.with_wasi_code(set)
    }

    fn set_times(
        &mut self,
        handle: Handle,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let (view, handle) = self.changeable(handle)?;
        view.set_times(handle, new_time(accessed)?, new_time(modified)?);
        Ok(())
    }

    fn write(&mut self, handle: Handle, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        let written = self.writable_file(handle)?.write_at(&bytes, offset);
        self.with_wasi_code(written)?;
        Ok(bytes.len() as Filesize)
    }

    fn create_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.change_at(handle, &path, |view, base| view.make_folder(base, &path))
    }

    fn set_times_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let (accessed, modified) = (new_time(accessed)?, new_time(modified)?);
        self.change_at(handle, &path, |view, base| {
            view.set_times_at(base, &path, follows(flags), accessed, modified)
        })
    }

    fn link_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
        new_handle: Handle,
        new_path: String,
    ) -> FsResult<()> {
        let (_, new_base) = self.writable_folder(new_handle)?;
        valid_path(&new_path)?;
        self.change_at(handle, &path, |view, base| {
            let old = (base, path.as_str(), follows(flags));
            view.make_hard_link(old, (&new_base, &new_path))
        })
    }

    fn remove_directory_at(&mut self, _: Handle, _: String) -> FsResult<()> {
        entries::replaced()
    }

    fn rename_at(&mut self, _: Handle, _: String, _: Handle, _: String) -> FsResult<()> {
        entries::replaced()
    }

    fn symlink_at(&mut self, handle: Handle, target: String, path: String) -> FsResult<()> {
        valid_path(&target)?;
        self.change_at(handle, &path, |view, base| {
            view.make_link(base, &path, &target)
        })
    }

    fn unlink_file_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.change_at(handle, &path, |view, base| view.remove_file(base, &path))
    }
}

impl HostDirectoryEntryStream for &mut ImportState {
    fn read_directory_entry(
        &mut self,
        _: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        entries::replaced()
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.table.delete(retyped::<_, GuestListing>(stream))?;
        Ok(())
    }
}

fn follows(flags: PathFlags) -> bool {
    flags.contains(PathFlags::SYMLINK_FOLLOW)
}

/// Checks that the kernel would accept a guest's path.
pub(super) fn valid_path(path: &str) -> Result<&Path, Code> {
    if path.len() >= limits::PATH_BYTES {
        Err(Code::NameTooLong)
    } else if path.contains('\0') {
        Err(Code::Invalid)
    } else {
        Ok(Path::new(path))
    }
}

/// Returns the WASI code of an error of the guard or the view. Maps `XDEV` itself, because
/// wasmtime-wasi does not.
pub(super) fn error_code(error: io::Error) -> Code {
    match Errno::from_io_error(&error) {
        Some(Errno::XDEV) => Code::CrossDevice,
        _ => Code::from(error),
    }
}

/// Converts a status to WASI's type.
fn stat(status: &NodeStatus) -> DescriptorStat {
    DescriptorStat {
        type_: type_of(status.kind),
        link_count: status.links,
        size: status.size,
        data_access_timestamp: timestamp(status.accessed),
        data_modification_timestamp: timestamp(status.modified),
        status_change_timestamp: timestamp(status.changed),
    }
}

/// Converts a file type to WASI's type.
fn type_of(kind: FileType) -> DescriptorType {
    match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        _ => DescriptorType::Unknown,
    }
}

fn timestamp((seconds, nanoseconds): (i64, u32)) -> Option<Datetime> {
    Some(Datetime {
        seconds: u64::try_from(seconds).ok()?,
        nanoseconds,
    })
}

/// Returns the time that the guest sets, if any.
fn new_time(time: NewTimestamp) -> FsResult<Option<Timestamp>> {
    Ok(match time {
        NewTimestamp::NoChange => None,
        NewTimestamp::Now => Some(now()),
        NewTimestamp::Timestamp(Datetime {
            seconds,
            nanoseconds,
        }) => {
            let seconds = i64::try_from(seconds).map_err(|_| Code::Invalid)?;
            if nanoseconds >= 1_000_000_000 {
                return Err(Code::Invalid.into());
            }
            Some((seconds, nanoseconds))
        }
    })
}

#[cfg(test)]
mod tests;
