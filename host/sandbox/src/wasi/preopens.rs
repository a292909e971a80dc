//! `wasi:filesystem/preopens`: the call's folder, and `/tmp` if it has a view.

use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor as WasiDescriptor;
use wasmtime_wasi::p2::bindings::filesystem::preopens;

use super::ImportState;
use super::filesystem::{Descriptor, retyped};
use crate::view::{TEMPORARY, ViewHandle};

impl preopens::Host for &mut ImportState {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<WasiDescriptor>, String)>> {
        let Some((folder, mount)) = &self.preopen else {
            return Ok(Vec::new());
        };
        if let Some(view) = &self.view {
            let folders = [
                (view.folder(), mount.as_str()),
                (view.temporary(), TEMPORARY),
            ];
            let mut directories = Vec::new();
            for (folder, mount) in folders {
                let handle = self.table.push(ViewHandle::Folder(Arc::clone(folder)))?;
                directories.push((retyped(handle), mount.to_owned()));
            }
            return Ok(directories);
        }
        let handle = self.table.push(Descriptor::Directory {
            folder: Arc::clone(folder),
            _lease: None,
        })?;
        Ok(vec![(retyped(handle), mount.clone())])
    }
}
