//! `wasi:filesystem/types` for calls with a copy-on-write view, which `view.rs` implements.
//! Other calls use `filesystem.rs`.

use std::sync::Arc;

use rustix::io::Errno;
use wasmtime::component::{HasData, Resource};
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
use super::filesystem::{error_code, retyped, stat, type_of, valid_path};
use super::view_streams::{ViewInput, ViewOutput, WritePosition};
use crate::tool::Stop;
use crate::tool::limits;
use crate::view::{
    EntryCounter, FileHandle, FolderListing, FolderNode, NodeStatus, OpenMode, Timestamp, View,
    ViewHandle, now,
};

/// The file system of a call with a view.
pub(super) struct ViewFiles<'a>(pub(super) &'a mut ImportState);

impl HasData for ViewFiles<'static> {
    type Data<'a> = ViewFiles<'a>;
}

type Handle = Resource<WasiDescriptor>;

impl ViewFiles<'_> {
    fn view(&self) -> FsResult<Arc<View>> {
        Ok(Arc::clone(self.0.view.as_ref().ok_or(Code::NoEntry)?))
    }

    fn get(&self, handle: Handle) -> FsResult<&ViewHandle> {
        Ok(self.0.table.get(&retyped::<_, ViewHandle>(handle))?)
    }

    fn folder(&self, handle: Handle) -> FsResult<Arc<FolderNode>> {
        match self.get(handle)? {
            ViewHandle::Folder(folder) => Ok(Arc::clone(folder)),
            ViewHandle::File(_) => Err(Code::NotDirectory.into()),
        }
    }

    fn file(&self, handle: Handle) -> FsResult<FileHandle> {
        match self.get(handle)? {
            ViewHandle::File(file) => Ok(file.clone()),
            ViewHandle::Folder(_) => Err(Code::IsDirectory.into()),
        }
    }

    fn writable(&self, handle: Handle) -> FsResult<FileHandle> {
        let file = self.file(handle)?;
        if file.writable {
            Ok(file)
        } else {
            Err(Code::BadDescriptor.into())
        }
    }

    /// Runs an operation on a path in the folder of a handle.
    fn at<T>(
        &mut self,
        handle: Handle,
        path: &str,
        work: impl FnOnce(&View, &Arc<FolderNode>) -> Result<T, Errno>,
    ) -> FsResult<T> {
        let folder = self.folder(handle)?;
        valid_path(path)?;
        let done = work(&*self.view()?, &folder);
        Ok(done.map_err(|error| self.0.refusal(error))?)
    }

    /// Runs an operation on a path, and counts the entries that it reads of folders.
    fn at_counting(
        &mut self,
        handle: Handle,
        path: &str,
        work: impl FnOnce(&View, &Arc<FolderNode>, &mut EntryCounter<'_>) -> Result<(), Errno>,
    ) -> FsResult<()> {
        let folder = self.folder(handle)?;
        valid_path(path)?;
        let view = self.view()?;
        let mut count = || self.0.count_entry().map_err(|_| Errno::OVERFLOW);
        let done = work(&view, &folder, &mut count);
        Ok(done.map_err(|error| self.0.refusal(error))?)
    }

    fn status(&mut self, handle: Handle) -> FsResult<NodeStatus> {
        let status = self.view()?.status(self.get(handle)?);
        Ok(status.map_err(|error| self.0.refusal(error))?)
    }

    fn status_at(&mut self, handle: Handle, flags: PathFlags, path: &str) -> FsResult<NodeStatus> {
        self.at(handle, path, |view, base| {
            view.status_at(base, path, follows(flags))
        })
    }

    fn output(
        &mut self,
        handle: Handle,
        position: WritePosition,
    ) -> FsResult<Resource<DynOutputStream>> {
        let stream = ViewOutput::new(self.writable(handle)?, position);
        let stream: DynOutputStream = Box::new(stream);
        Ok(self.0.table.push(stream)?)
    }
}

impl ImportState {
    /// Returns the WASI code of a view's error.
    pub(super) fn refusal(&mut self, error: Errno) -> Code {
        if error == Errno::MFILE {
            self.stop = Some(Stop::Busy);
            return Code::Busy;
        }
        error_code(error.into())
    }
}

impl Host for ViewFiles<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        (&mut *self.0).convert_error_code(error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        (&mut *self.0).filesystem_error_code(error)
    }
}

impl HostDescriptor for ViewFiles<'_> {
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
        let log = self.0.scripts.as_ref().map(|gate| gate.log.clone());
        let opened = self.at(handle, &path, |view, base| {
            view.open_noted(base, &path, mode, log.as_ref())
        })?;
        if let ViewHandle::File(file) = &opened
            && let Some((disk, open)) = file.on_disk()
        {
            self.0.note_opened(None, &path, open, |_| Ok(disk))?;
        }
        Ok(retyped(self.0.table.push(opened)?))
    }

    fn read(
        &mut self,
        handle: Handle,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let file = self.file(handle)?;
        let read = file.read_at(length.min(limits::READ_BYTES), offset);
        Ok(read.map_err(|error| self.0.refusal(error))?)
    }

    fn read_via_stream(
        &mut self,
        handle: Handle,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let file = self.file(handle)?;
        if !file.readable {
            return Err(Code::BadDescriptor.into());
        }
        let stream: DynInputStream = Box::new(ViewInput::new(file, offset));
        Ok(self.0.table.push(stream)?)
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
        let folder = self.folder(handle)?;
        let listing = self.view()?.list(&folder);
        let listing = listing.map_err(|error| self.0.refusal(error))?;
        Ok(retyped(self.0.table.push(listing)?))
    }

    fn readlink_at(&mut self, handle: Handle, path: String) -> FsResult<String> {
        self.at(handle, &path, |view, base| view.read_link(base, &path))
    }

    fn get_flags(&mut self, handle: Handle) -> FsResult<DescriptorFlags> {
        Ok(match self.get(handle)? {
            ViewHandle::Folder(_) => DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY,
            ViewHandle::File(file) => {
                let flag = |flag, is_set| {
                    if is_set {
                        flag
                    } else {
                        DescriptorFlags::empty()
                    }
                };
                flag(DescriptorFlags::READ, file.readable)
                    | flag(DescriptorFlags::WRITE, file.writable)
            }
        })
    }

    fn get_type(&mut self, handle: Handle) -> FsResult<DescriptorType> {
        Ok(match self.get(handle)? {
            ViewHandle::File(_) => DescriptorType::RegularFile,
            ViewHandle::Folder(_) => DescriptorType::Directory,
        })
    }

    fn is_same_object(&mut self, a: Handle, b: Handle) -> wasmtime::Result<bool> {
        let (a, b) = (self.get(a)?, self.get(b)?);
        Ok(a.is_same(b))
    }

    fn metadata_hash(&mut self, handle: Handle) -> FsResult<MetadataHashValue> {
        let id = self.status(handle)?.id;
        Ok(self.0.hash(id))
    }

    fn metadata_hash_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let id = self.status_at(handle, flags, &path)?.id;
        Ok(self.0.hash(id))
    }

    fn advise(&mut self, handle: Handle, _: Filesize, _: Filesize, _: Advice) -> FsResult<()> {
        self.get(handle)?;
        Ok(())
    }

    fn drop(&mut self, handle: Handle) -> wasmtime::Result<()> {
        self.0.table.delete(retyped::<_, ViewHandle>(handle))?;
        Ok(())
    }

    fn write_via_stream(
        &mut self,
        handle: Handle,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.output(handle, WritePosition::At(offset))
    }

    fn append_via_stream(&mut self, handle: Handle) -> FsResult<Resource<DynOutputStream>> {
        self.output(handle, WritePosition::End)
    }

    fn sync(&mut self, handle: Handle) -> FsResult<()> {
        // Written data is in memory; there is nothing to sync.
        self.get(handle)?;
        Ok(())
    }

    fn sync_data(&mut self, handle: Handle) -> FsResult<()> {
        self.sync(handle)
    }

    fn set_size(&mut self, handle: Handle, size: Filesize) -> FsResult<()> {
        let set = self.writable(handle)?.set_size(size);
        Ok(set.map_err(|error| self.0.refusal(error))?)
    }

    fn set_times(
        &mut self,
        handle: Handle,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let (accessed, modified) = (given(accessed)?, given(modified)?);
        let view = self.view()?;
        view.set_times(self.get(handle)?, accessed, modified);
        Ok(())
    }

    fn write(&mut self, handle: Handle, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        let written = self.writable(handle)?.write_at(&bytes, offset);
        written.map_err(|error| self.0.refusal(error))?;
        Ok(bytes.len() as Filesize)
    }

    fn create_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.at(handle, &path, |view, base| view.make_folder(base, &path))
    }

    fn set_times_at(
        &mut self,
        handle: Handle,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let (accessed, modified) = (given(accessed)?, given(modified)?);
        self.at(handle, &path, |view, base| {
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
        let new_base = self.folder(new_handle)?;
        valid_path(&new_path)?;
        self.at(handle, &path, |view, base| {
            let old = (base, path.as_str(), follows(flags));
            view.add_name(old, (&new_base, &new_path))
        })
    }

    fn remove_directory_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.at_counting(handle, &path, |view, base, count| {
            view.remove_folder(base, &path, count)
        })
    }

    fn rename_at(
        &mut self,
        handle: Handle,
        path: String,
        new_handle: Handle,
        new_path: String,
    ) -> FsResult<()> {
        let new_base = self.folder(new_handle)?;
        valid_path(&new_path)?;
        self.at_counting(handle, &path, |view, base, count| {
            view.rename((base, &path), (&new_base, &new_path), count)
        })
    }

    fn symlink_at(&mut self, handle: Handle, target: String, path: String) -> FsResult<()> {
        valid_path(&target)?;
        self.at(handle, &path, |view, base| {
            view.make_link(base, &path, &target)
        })
    }

    fn unlink_file_at(&mut self, handle: Handle, path: String) -> FsResult<()> {
        self.at(handle, &path, |view, base| view.remove_file(base, &path))
    }
}

impl HostDirectoryEntryStream for ViewFiles<'_> {
    fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let stream = retyped::<_, FolderListing>(stream);
        loop {
            let Some(step) = self.0.table.get_mut(&stream)?.step().transpose() else {
                return Ok(None);
            };
            self.0.count_entry()?;
            let entry = step.map_err(|error| self.0.refusal(error))?;
            if let Some((name, kind)) = entry {
                return Ok(Some(DirectoryEntry {
                    type_: type_of(kind),
                    name,
                }));
            }
        }
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.0.table.delete(retyped::<_, FolderListing>(stream))?;
        Ok(())
    }
}

fn follows(flags: PathFlags) -> bool {
    flags.contains(PathFlags::SYMLINK_FOLLOW)
}

/// Returns the new time, if the guest sets one.
fn given(time: NewTimestamp) -> FsResult<Option<Timestamp>> {
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
