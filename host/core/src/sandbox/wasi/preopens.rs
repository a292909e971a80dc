//! `wasi:filesystem/preopens`: the one folder of the call.

use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor as WasiDescriptor;
use wasmtime_wasi::p2::bindings::filesystem::preopens;

use super::ImportState;
use super::filesystem::{Descriptor, retyped};

impl preopens::Host for &mut ImportState {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<WasiDescriptor>, String)>> {
        let Some((folder, mount)) = &self.preopen else {
            return Ok(Vec::new());
        };
        let handle = self.table.push(Descriptor::Directory {
            folder: Arc::clone(folder),
            _permit: None,
        })?;
        Ok(vec![(retyped(handle), mount.clone())])
    }
}
