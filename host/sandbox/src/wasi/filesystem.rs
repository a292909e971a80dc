//! Read-only `wasi:filesystem/types`. Functions that would change something fail with
//! `read-only` without asking the file system. `view_files.rs` is for calls with a
//! copy-on-write view.

use std::hash::{BuildHasher as _, Hash};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
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
use super::file::FileStream;
use crate::open_file::OpenFile;
use crate::tool::Stop;
use crate::tool::limits;
use crate::view::NodeStatus;
use skillhost_skills::descriptors::DescriptorLease;
use skillhost_skills::entries::EntryCursor;
use skillhost_skills::guard::{FileStatus, Folder, PathTarget};

/// A handle of a guest.
pub(super) enum Descriptor {
    File(Arc<OpenFile>),
    /// The preopen has no lease, because the host opened it.
    Directory {
        folder: Arc<Folder>,
        _lease: Option<DescriptorLease>,
    },
}

/// A directory listing in progress. Entries are read when the guest asks for them, so the
/// host stores none.
struct ListingCursor {
    rest: EntryCursor,
    _lease: DescriptorLease,
}

/// Returns the same handle with the type of the WASI bindings. Both refer to an entry of
/// the sandbox's table, which checks the real type.
pub(super) fn retyped<T: 'static, U: 'static>(handle: Resource<T>) -> Resource<U> {
    if handle.owned() {
        Resource::new_own(handle.rep())
    } else {
        Resource::new_borrow(handle.rep())
    }
}

impl ImportState {
    fn descriptor(&self, handle: Resource<WasiDescriptor>) -> FsResult<&Descriptor> {
        Ok(self.table.get(&retyped::<_, Descriptor>(handle))?)
    }

    fn directory(&self, handle: Resource<WasiDescriptor>) -> FsResult<Arc<Folder>> {
        match self.descriptor(handle)? {
            Descriptor::Directory { folder, .. } => Ok(Arc::clone(folder)),
            Descriptor::File(_) => Err(Code::NotDirectory.into()),
        }
    }

    fn file(&self, handle: Resource<WasiDescriptor>) -> FsResult<Arc<OpenFile>> {
        match self.descriptor(handle)? {
            Descriptor::File(file) => Ok(Arc::clone(file)),
            Descriptor::Directory { .. } => Err(Code::IsDirectory.into()),
        }
    }

    fn status(&self, handle: Resource<WasiDescriptor>) -> FsResult<FileStatus> {
        Ok(match self.descriptor(handle)? {
            Descriptor::File(open) => open.status()?,
            Descriptor::Directory { folder, .. } => folder.status()?,
        })
    }

    fn status_at(
        &self,
        handle: Resource<WasiDescriptor>,
        flags: PathFlags,
        path: &str,
    ) -> FsResult<FileStatus> {
        let folder = self.directory(handle)?;
        let follow = flags.contains(PathFlags::SYMLINK_FOLLOW);
        Ok(folder
            .status_at(valid_path(path)?, follow)
            .map_err(error_code)?)
    }

    /// Returns a hash that identifies a file without revealing the host's numbers for it.
    /// The key is secret and specific to the call: with a known key, a guest could find the
    /// numbers by trial.
    pub(super) fn hash(&self, id: impl Hash) -> MetadataHashValue {
        let half = |half: u8| self.hash_key.hash_one((half, &id));
        MetadataHashValue {
            lower: half(0),
            upper: half(1),
        }
    }

    /// Counts an entry of a directory listing.
    pub(super) fn count_entry(&mut self) -> Result<(), Code> {
        let (limit, left) = &mut self.directory_entries;
        let Some(less) = left.checked_sub(1) else {
            self.stop = Some(Stop::DirectoryEntries(*limit));
            return Err(Code::Overflow);
        };
        *left = less;
        Ok(())
    }

    /// Takes a descriptor to open a file or folder.
    pub(super) fn take_descriptor(&mut self) -> Result<DescriptorLease, Code> {
        self.descriptors.take().ok_or_else(|| {
            self.stop = Some(Stop::Busy);
            Code::Busy
        })
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
        handle: Resource<WasiDescriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<WasiDescriptor>> {
        let folder = self.directory(handle)?;
        let changing = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
        let writing = DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY;
        if open_flags.intersects(changing) || flags.intersects(writing) {
            return Err(Code::ReadOnly.into());
        }
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        let lease = self.take_descriptor()?;
        let opened = match folder
            .lookup(valid_path(&path)?, follow)
            .map_err(error_code)?
        {
            PathTarget::Folder(folder) => Descriptor::Directory {
                folder: Arc::new(folder),
                _lease: Some(lease),
            },
            PathTarget::File(_) if open_flags.contains(OpenFlags::DIRECTORY) => {
                return Err(Code::NotDirectory.into());
            }
            PathTarget::File(seen) => {
                let file = OpenFile::new(seen.open()?, lease);
                self.note_opened(Some(&folder), &path, &file, |root| {
                    root.path_of(file.file()).ok_or(Code::Busy)
                })?;
                Descriptor::File(Arc::new(file))
            }
        };
        Ok(retyped(self.table.push(opened)?))
    }

    fn read(
        &mut self,
        handle: Resource<WasiDescriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let file = self.file(handle)?;
        Ok(file.read_at(length.min(limits::READ_BYTES), offset)?)
    }

    fn read_via_stream(
        &mut self,
        handle: Resource<WasiDescriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let stream: DynInputStream = Box::new(FileStream::new(self.file(handle)?, offset));
        Ok(self.table.push(stream)?)
    }

    fn stat(&mut self, handle: Resource<WasiDescriptor>) -> FsResult<DescriptorStat> {
        Ok(stat(&self.status(handle)?.into()))
    }

    fn stat_at(
        &mut self,
        handle: Resource<WasiDescriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        Ok(stat(&self.status_at(handle, path_flags, &path)?.into()))
    }

    fn read_directory(
        &mut self,
        handle: Resource<WasiDescriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let folder = match self.descriptor(handle)? {
            Descriptor::Directory { folder, .. } => Arc::clone(folder),
            Descriptor::File(_) => return Err(Code::NotDirectory.into()),
        };
        let lease = self.take_descriptor()?;
        let listing = ListingCursor {
            rest: folder.entries()?,
            _lease: lease,
        };
        Ok(retyped(self.table.push(listing)?))
    }

    fn readlink_at(&mut self, handle: Resource<WasiDescriptor>, path: String) -> FsResult<String> {
        let folder = self.directory(handle)?;
        let target = folder.read_link(valid_path(&path)?).map_err(error_code)?;
        String::from_utf8(target.into_os_string().into_vec())
            .map_err(|_| Code::IllegalByteSequence.into())
    }

    fn get_flags(&mut self, handle: Resource<WasiDescriptor>) -> FsResult<DescriptorFlags> {
        self.descriptor(handle)?;
        Ok(DescriptorFlags::READ)
    }

    fn get_type(&mut self, handle: Resource<WasiDescriptor>) -> FsResult<DescriptorType> {
        Ok(match self.descriptor(handle)? {
            Descriptor::File(_) => DescriptorType::RegularFile,
            Descriptor::Directory { .. } => DescriptorType::Directory,
        })
    }

    fn is_same_object(
        &mut self,
        a: Resource<WasiDescriptor>,
        b: Resource<WasiDescriptor>,
    ) -> wasmtime::Result<bool> {
        let (a, b) = (self.status(a)?, self.status(b)?);
        Ok(a.is_same_file(&b))
    }

    fn metadata_hash(&mut self, handle: Resource<WasiDescriptor>) -> FsResult<MetadataHashValue> {
        Ok(self.hash(self.status(handle)?.unique_id()))
    }

    fn metadata_hash_at(
        &mut self,
        handle: Resource<WasiDescriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        Ok(self.hash(self.status_at(handle, path_flags, &path)?.unique_id()))
    }

    fn advise(
        &mut self,
        handle: Resource<WasiDescriptor>,
        _: Filesize,
        _: Filesize,
        _: Advice,
    ) -> FsResult<()> {
        // WASI allows an implementation to ignore advice.
        self.descriptor(handle)?;
        Ok(())
    }

    fn drop(&mut self, handle: Resource<WasiDescriptor>) -> wasmtime::Result<()> {
        self.table.delete(retyped::<_, Descriptor>(handle))?;
        Ok(())
    }

    // The following functions would change something.

    fn write_via_stream(
        &mut self,
        _: Resource<WasiDescriptor>,
        _: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        Err(Code::ReadOnly.into())
    }

    fn append_via_stream(
        &mut self,
        _: Resource<WasiDescriptor>,
    ) -> FsResult<Resource<DynOutputStream>> {
        Err(Code::ReadOnly.into())
    }

    fn sync(&mut self, _: Resource<WasiDescriptor>) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn sync_data(&mut self, _: Resource<WasiDescriptor>) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn set_size(&mut self, _: Resource<WasiDescriptor>, _: Filesize) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn set_times(
        &mut self,
        _: Resource<WasiDescriptor>,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn write(
        &mut self,
        _: Resource<WasiDescriptor>,
        _: Vec<u8>,
        _: Filesize,
    ) -> FsResult<Filesize> {
        Err(Code::ReadOnly.into())
    }

    fn create_directory_at(&mut self, _: Resource<WasiDescriptor>, _: String) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn set_times_at(
        &mut self,
        _: Resource<WasiDescriptor>,
        _: PathFlags,
        _: String,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn link_at(
        &mut self,
        _: Resource<WasiDescriptor>,
        _: PathFlags,
        _: String,
        _: Resource<WasiDescriptor>,
        _: String,
    ) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn remove_directory_at(&mut self, _: Resource<WasiDescriptor>, _: String) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn rename_at(
        &mut self,
        _: Resource<WasiDescriptor>,
        _: String,
        _: Resource<WasiDescriptor>,
        _: String,
    ) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn symlink_at(&mut self, _: Resource<WasiDescriptor>, _: String, _: String) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }

    fn unlink_file_at(&mut self, _: Resource<WasiDescriptor>, _: String) -> FsResult<()> {
        Err(Code::ReadOnly.into())
    }
}

impl HostDirectoryEntryStream for &mut ImportState {
    fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = self.table.get_mut(&retyped::<_, ListingCursor>(stream))?;
        let Some(entry) = listing.rest.next() else {
            return Ok(None);
        };
        self.count_entry()?;
        let entry = entry?;
        match entry.name.into_string() {
            Ok(name) => Ok(Some(DirectoryEntry {
                type_: type_of(entry.kind),
                name,
            })),
            Err(_) => Err(Code::IllegalByteSequence.into()),
        }
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.table.delete(retyped::<_, ListingCursor>(stream))?;
        Ok(())
    }
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

/// Returns the WASI code of an error of the guard. wasmtime-wasi does not map `XDEV`.
pub(super) fn error_code(error: io::Error) -> Code {
    match Errno::from_io_error(&error) {
        Some(Errno::XDEV) => Code::CrossDevice,
        _ => Code::from(error),
    }
}

/// Converts a status to WASI's type.
pub(super) fn stat(status: &NodeStatus) -> DescriptorStat {
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
pub(super) fn type_of(kind: FileType) -> DescriptorType {
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

#[cfg(test)]
mod tests;
