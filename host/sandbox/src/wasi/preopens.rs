//! `wasi:filesystem/preopens`: the call's folder, and `/tmp` if the call has a view.

use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor as WasiDescriptor;
use wasmtime_wasi::p2::bindings::filesystem::preopens;

use super::ImportState;
use super::filesystem::retyped;
use super::handles::Descriptor;
use crate::view::{TEMPORARY, ViewHandle};

impl preopens::Host for &mut ImportState {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<WasiDescriptor>, String)>> {
        let Some((folder, mount)) = &self.preopen else {
            return Ok(Vec::new());
        };
        let (first, temporary) = match &self.view {
            None => (Descriptor::preopen(Arc::clone(folder)), None),
            Some(view) => {
                let open = |folder| {
                    let handle = ViewHandle::Folder(Arc::clone(folder));
                    Descriptor::View(Arc::clone(view), handle)
                };
                (open(view.folder()), Some(open(view.temporary())))
            }
        };
        let mut directories = vec![(retyped(self.table.push(first)?), mount.clone())];
        if let Some(temporary) = temporary {
            let handle = self.table.push(temporary)?;
            directories.push((retyped(handle), TEMPORARY.to_owned()));
        }
        Ok(directories)
    }
}
