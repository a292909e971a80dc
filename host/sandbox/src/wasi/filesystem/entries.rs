//! Functions of `wasi:filesystem/types` that may read many entries of folders in one host
//! call: removing, renaming and listing a folder. They pause after each turn, as guests do.

use rustix::io::Errno;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    DirectoryEntry, DirectoryEntryStream, ErrorCode,
};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::super::{HasImportState, ImportState};
use super::{GuestListing, Handle, retyped, type_of, valid_path};
use crate::engine::HostTurn;
use crate::view::EntryCounter;

/// The interface, in the version of wasmtime-wasi.
const INTERFACE: &str = "wasi:filesystem/types@0.2.12";

/// Links these functions in place of those in wasmtime-wasi's traits.
pub(in crate::wasi) fn link<T: HasImportState>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance(INTERFACE)?;
    types.func_wrap_async(
        "[method]descriptor.remove-directory-at",
        |mut store: StoreContextMut<'_, T>, (handle, path): (Handle, String)| {
            Box::new(async move {
                let imports = store.data_mut().imports();
                guest_result(
                    imports
                        .remove_folder(HostTurn::begin(), handle, &path)
                        .await,
                )
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.rename-at",
        |mut store: StoreContextMut<'_, T>,
         (handle, path, new_handle, new_path): (Handle, String, Handle, String)| {
            Box::new(async move {
                let imports = store.data_mut().imports();
                let (old, new) = ((handle, &*path), (new_handle, &*new_path));
                guest_result(imports.rename(HostTurn::begin(), old, new).await)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store: StoreContextMut<'_, T>, (listing,): (Resource<DirectoryEntryStream>,)| {
            Box::new(async move {
                let imports = store.data_mut().imports();
                guest_result(imports.next_entry(HostTurn::begin(), listing).await)
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Returns a trap, for the functions of traits that [`link`] replaces and that never run.
pub(super) fn replaced<T>() -> FsResult<T> {
    Err(FsError::trap(wasmtime::format_err!(
        "this function is replaced when it is linked"
    )))
}

/// Converts a result to the form that a guest gets.
fn guest_result<T>(result: FsResult<T>) -> wasmtime::Result<(Result<T, ErrorCode>,)> {
    Ok((match result {
        Ok(done) => Ok(done),
        Err(error) => Err(error.downcast()?.into()),
    },))
}

impl ImportState {
    pub(in crate::wasi) async fn remove_folder(
        &mut self,
        turn: HostTurn,
        handle: Handle,
        path: &str,
    ) -> FsResult<()> {
        let (view, base) = self.writable_folder(handle)?;
        valid_path(path)?;
        let mut count = || self.count_entry().map_err(|_| Errno::OVERFLOW);
        let mut counter = EntryCounter::new(turn, &mut count);
        let removed = view.remove_folder(&base, path, &mut counter).await;
        self.with_wasi_code(removed)
    }

    pub(in crate::wasi) async fn rename(
        &mut self,
        turn: HostTurn,
        (handle, path): (Handle, &str),
        (new_handle, new_path): (Handle, &str),
    ) -> FsResult<()> {
        let (_, new_base) = self.writable_folder(new_handle)?;
        valid_path(new_path)?;
        let (view, base) = self.writable_folder(handle)?;
        valid_path(path)?;
        let mut count = || self.count_entry().map_err(|_| Errno::OVERFLOW);
        let mut counter = EntryCounter::new(turn, &mut count);
        let (old, new) = ((&base, path), (&new_base, new_path));
        let renamed = view.rename(old, new, &mut counter).await;
        self.with_wasi_code(renamed)
    }

    /// Reads the next entry of a listing. Skips entries that listings omit or the view hides.
    pub(in crate::wasi) async fn next_entry(
        &mut self,
        mut turn: HostTurn,
        listing: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = retyped::<_, GuestListing>(listing);
        loop {
            let Some(step) = self.table.get_mut(&listing)?.step().transpose() else {
                return Ok(None);
            };
            self.count_entry()?;
            if let Some((name, kind)) = self.with_wasi_code(step)? {
                return Ok(Some(DirectoryEntry {
                    type_: type_of(kind),
                    name,
                }));
            }
            turn.pause_if_over().await;
        }
    }
}
