//! `wasi:cli/environment`: the variables that the operator set for the tool. A guest
//! sees none of the process's own variables and arguments. With a copy-on-write view,
//! it starts in the call's folder.

use wasmtime_wasi::p2::bindings::cli::environment;

use super::ImportState;

impl environment::Host for &mut ImportState {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(self.environment.to_vec())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        let mount = self.preopen.as_ref().map(|(_, mount)| mount.clone());
        Ok(self.view.as_ref().and(mount))
    }
}
