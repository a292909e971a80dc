//! C and the component model: makes bindings from a project's WIT, and a component
//! from a module that was compiled with them.

use std::fs;
use std::path::{Path, PathBuf};

use skillhost::named_file;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_bindgen_core::Files;
use wit_component::ComponentEncoder;

use super::Fault;
use super::project::{BUILT_BYTES, Project};
use super::wit::ProjectWit;

/// Bindings in a folder.
pub(super) struct Bindings {
    pub(super) folder: PathBuf,
    /// The files to compile and link.
    pub(super) files: Vec<PathBuf>,
}

/// Makes C bindings of the project's `wit`.
pub(super) fn generate(project: &Project) -> Result<Bindings, Fault> {
    let mut wit = ProjectWit::read(project)?;
    let world = wit.world()?;
    let mut made = || -> anyhow::Result<Files> {
        let mut files = Files::default();
        wit_bindgen_c::Opts::default()
            .build()
            .generate(&mut wit.resolve, world, &mut files)?;
        Ok(files)
    };
    let made = made().map_err(|error| Fault::project(format!("in `wit`: {error:#}")))?;
    let folder = project.scratch("bindings")?;
    let mut files = Vec::new();
    for (name, content) in made.iter() {
        let file = folder.join(name);
        // A file that does not change keeps its modification time.
        if !named_file::read(&file, BUILT_BYTES).is_ok_and(|written| written == content) {
            fs::write(&file, content).map_err(|error| {
                Fault::missing(format!("cannot write `{}`: {error}", file.display()))
            })?;
        }
        if !name.ends_with(".h") {
            files.push(file);
        }
    }
    files.sort();
    Ok(Bindings { folder, files })
}

/// Makes a component of a module.
pub(super) fn component(project: &Project, module: &Path) -> Result<PathBuf, Fault> {
    let encode = || -> anyhow::Result<Vec<u8>> {
        let module = named_file::read(module, BUILT_BYTES)?;
        ComponentEncoder::default()
            .validate(true)
            .module(&module)?
            .adapter(
                WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
            )?
            .encode()
    };
    let bytes = encode().map_err(|error| {
        Fault::project(format!(
            "cannot make a component from the compiled module: {error:#}"
        ))
    })?;
    let component = project.scratch("")?.join("component.wasm");
    fs::write(&component, bytes).map_err(|error| {
        Fault::missing(format!("cannot write `{}`: {error}", component.display()))
    })?;
    Ok(component)
}
