//! Generates C bindings from a project's WIT, and makes a component from the compiled module.

use std::fs;
use std::path::{Path, PathBuf};

use skillhost_skills::named_file;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_bindgen_core::Files;
use wit_component::ComponentEncoder;

use super::BuildError;
use super::project::{MAX_BUILT_BYTES, Project};
use super::wit::ProjectWit;

/// Generated bindings.
pub(super) struct Bindings {
    pub(super) folder: PathBuf,
    /// The files to compile and link.
    pub(super) files: Vec<PathBuf>,
}

/// Generates C bindings for the project's `wit`, in `build/bindings`.
pub(super) fn generate(project: &Project) -> Result<Bindings, BuildError> {
    let mut wit = ProjectWit::read(project)?;
    let world = wit.world()?;
    let mut generate = || -> anyhow::Result<Files> {
        let mut files = Files::default();
        wit_bindgen_c::Opts::default()
            .build()
            .generate(&mut wit.resolve, world, &mut files)?;
        Ok(files)
    };
    let generated =
        generate().map_err(|error| BuildError::project(format!("in `wit`: {error:#}")))?;
    let folder = project.build_folder("bindings")?;
    let mut files = Vec::new();
    for (name, content) in generated.iter() {
        let file = folder.join(name);
        // An unchanged file keeps its modification time.
        if !named_file::read(&file, MAX_BUILT_BYTES).is_ok_and(|written| written == content) {
            fs::write(&file, content).map_err(|error| {
                BuildError::setup(format!("cannot write `{}`: {error}", file.display()))
            })?;
        }
        if !name.ends_with(".h") {
            files.push(file);
        }
    }
    files.sort();
    Ok(Bindings { folder, files })
}

/// Makes a component from a module, and returns its file.
pub(super) fn make_component(project: &Project, module: &Path) -> Result<PathBuf, BuildError> {
    let encode = || -> anyhow::Result<Vec<u8>> {
        let module = named_file::read(module, MAX_BUILT_BYTES)?;
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
        BuildError::project(format!(
            "cannot make a component from the compiled module: {error:#}"
        ))
    })?;
    let component = project.build_folder("")?.join("component.wasm");
    fs::write(&component, bytes).map_err(|error| {
        BuildError::setup(format!("cannot write `{}`: {error}", component.display()))
    })?;
    Ok(component)
}
