//! `wasi:filesystem/types`, for reading only. Whatever would change something
//! is `read-only`, decided before the file system is asked.

use std::fs::File;
use std::hash::BuildHasher as _;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::ReadDir;
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

use super::World;
use super::streams::FileStream;
use crate::skill::descriptors::DescriptorPermit;
use crate::skill::guard::{FileStatus, Folder, PathTarget};
use crate::tool::Stop;
use crate::tool::limits;

/// A handle of a guest.
pub(super) enum Descriptor {
    File(Arc<OpenFile>),
    /// The preopen, which the host opened, has no permit.
    Directory {
        folder: Arc<Folder>,
        _permit: Option<DescriptorPermit>,
    },
}

/// A file, open for as long as a handle or a stream needs it.
pub(super) struct OpenFile {
    pub(super) file: File,
    _permit: DescriptorPermit,
}

/// The rest of a directory listing. Entries are read as they are asked for: the
/// host holds none.
struct Entries {
    rest: ReadDir,
    _permit: DescriptorPermit,
}

/// The same handle, under the type that the WASI bindings know it by. Both
/// name an entry of the sandbox's table, which checks the real type.
pub(super) fn tagged<T: 'static, U: 'static>(handle: Resource<T>) -> Resource<U> {
    if handle.owned() {
        Resource::new_own(handle.rep())
    } else {
        Resource::new_borrow(handle.rep())
    }
}

impl World {
    fn descriptor(&self, handle: Resource<WasiDescriptor>) -> FsResult<&Descriptor> {
        Ok(self.table.get(&tagged::<_, Descriptor>(handle))?)
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
            Descriptor::File(open) => FileStatus::of(&open.file)?,
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
        Ok(folder.status_at(checked(path)?, follow).map_err(code)?)
    }

    /// Which file it is, without telling the guest the host's numbers for it:
    /// they could be found by trying, were the key not this call's own.
    fn hash(&self, status: &FileStatus) -> MetadataHashValue {
        let half = |half: u8| self.hash_key.hash_one((half, status.unique_id()));
        MetadataHashValue {
            lower: half(0),
            upper: half(1),
        }
    }

    /// Leave to open something more, which is the call's until it goes.
    pub(super) fn permit(&mut self) -> Result<DescriptorPermit, Code> {
        self.descriptors.take().ok_or_else(|| {
            self.hit = Some(Stop::Busy);
            Code::Busy
        })
    }
}

impl Host for &mut World {
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

impl HostDescriptor for &mut World {
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
        let permit = self.permit()?;
        let opened = match folder.lookup(checked(&path)?, follow).map_err(code)? {
            PathTarget::Folder(folder) => Descriptor::Directory {
                folder: Arc::new(folder),
                _permit: Some(permit),
            },
            PathTarget::File(_) if open_flags.contains(OpenFlags::DIRECTORY) => {
                return Err(Code::NotDirectory.into());
            }
            PathTarget::File(file) => Descriptor::File(Arc::new(OpenFile {
                file: file.open()?,
                _permit: permit,
            })),
        };
        Ok(tagged(self.table.push(opened)?))
    }

    fn read(
        &mut self,
        handle: Resource<WasiDescriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let file = self.file(handle)?;
        Ok(read_some(
            &file.file,
            length.min(limits::READ_BYTES),
            offset,
        )?)
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
        Ok(stat(&self.status(handle)?))
    }

    fn stat_at(
        &mut self,
        handle: Resource<WasiDescriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        Ok(stat(&self.status_at(handle, path_flags, &path)?))
    }

    fn read_directory(
        &mut self,
        handle: Resource<WasiDescriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let folder = match self.descriptor(handle)? {
            Descriptor::Directory { folder, .. } => Arc::clone(folder),
            Descriptor::File(_) => return Err(Code::NotDirectory.into()),
        };
        let permit = self.permit()?;
        let entries = Entries {
            rest: folder.handle().entries()?,
            _permit: permit,
        };
        Ok(tagged(self.table.push(entries)?))
    }

    fn readlink_at(&mut self, handle: Resource<WasiDescriptor>, path: String) -> FsResult<String> {
        let folder = self.directory(handle)?;
        let target = folder.read_link(checked(&path)?).map_err(code)?;
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
        Ok(self.hash(&self.status(handle)?))
    }

    fn metadata_hash_at(
        &mut self,
        handle: Resource<WasiDescriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        Ok(self.hash(&self.status_at(handle, path_flags, &path)?))
    }

    fn advise(
        &mut self,
        handle: Resource<WasiDescriptor>,
        _: Filesize,
        _: Filesize,
        _: Advice,
    ) -> FsResult<()> {
        // Advice may be ignored.
        self.descriptor(handle)?;
        Ok(())
    }

    fn drop(&mut self, handle: Resource<WasiDescriptor>) -> wasmtime::Result<()> {
        self.table.delete(tagged::<_, Descriptor>(handle))?;
        Ok(())
    }

    // From here on: what would change something.

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

impl HostDirectoryEntryStream for &mut World {
    fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let entries = self.table.get_mut(&tagged::<_, Entries>(stream))?;
        let Some(entry) = entries.rest.next() else {
            return Ok(None);
        };
        let (limit, left) = &mut self.directory_entries;
        let Some(less) = left.checked_sub(1) else {
            self.hit = Some(Stop::DirectoryEntries(*limit));
            return Err(Code::Overflow.into());
        };
        *left = less;
        let entry = entry?;
        match entry.file_name().into_string() {
            Ok(name) => Ok(Some(DirectoryEntry {
                type_: descriptor_type(entry.file_type()?),
                name,
            })),
            Err(_) => Err(Code::IllegalByteSequence.into()),
        }
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.table.delete(tagged::<_, Entries>(stream))?;
        Ok(())
    }
}

/// A guest's path, if it is one that the kernel would take.
pub(super) fn checked(path: &str) -> Result<&Path, Code> {
    if path.len() >= limits::PATH_BYTES {
        Err(Code::NameTooLong)
    } else if path.contains('\0') {
        Err(Code::Invalid)
    } else {
        Ok(Path::new(path))
    }
}

/// The code of an error of the guard. wasmtime-wasi has no word for this one.
pub(super) fn code(error: io::Error) -> Code {
    match Errno::from_io_error(&error) {
        Some(Errno::XDEV) => Code::CrossDevice,
        _ => Code::from(error),
    }
}

/// Reads up to `length` bytes, and says whether the file ended. The buffer is
/// sized by the file, so that an ordinary file is read by one call.
fn read_some(file: &File, length: u64, offset: u64) -> io::Result<(Vec<u8>, bool)> {
    if length == 0 {
        return Ok((Vec::new(), false));
    }
    // One byte more than there should be shows that there is no more.
    let rest = file
        .metadata()?
        .len()
        .saturating_sub(offset)
        .saturating_add(1);
    let wanted = usize::try_from(rest.min(length)).map_err(io::Error::other)?;
    let mut bytes = vec![0; wanted];
    let mut filled = 0;
    while filled < wanted {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok((bytes, filled < wanted))
}

fn stat(status: &FileStatus) -> DescriptorStat {
    DescriptorStat {
        type_: match status.kind {
            FileType::RegularFile => DescriptorType::RegularFile,
            FileType::Directory => DescriptorType::Directory,
            FileType::Symlink => DescriptorType::SymbolicLink,
            _ => DescriptorType::Unknown,
        },
        link_count: status.links,
        size: status.size,
        data_access_timestamp: timestamp(status.accessed),
        data_modification_timestamp: timestamp(status.modified),
        status_change_timestamp: timestamp(status.changed()),
    }
}

fn timestamp((seconds, nanoseconds): (i64, u32)) -> Option<Datetime> {
    Some(Datetime {
        seconds: u64::try_from(seconds).ok()?,
        nanoseconds,
    })
}

fn descriptor_type(kind: cap_std::fs::FileType) -> DescriptorType {
    if kind.is_file() {
        DescriptorType::RegularFile
    } else if kind.is_dir() {
        DescriptorType::Directory
    } else if kind.is_symlink() {
        DescriptorType::SymbolicLink
    } else {
        DescriptorType::Unknown
    }
}

#[cfg(test)]
mod tests;
