//! C, by `zig cc`. The bindings are made here, and so is the component.

use std::path::PathBuf;

use super::project::{self, Project};
use super::step::Step;
use super::venv::Venv;
use super::{Fault, bindings};

/// Zig's own stack of 16 MiB is a quarter of what a call may have, and each
/// sandbox starts with it.
const STACK: &str = "-Wl,-z,stack-size=1048576";

pub(super) fn build(project: &Project) -> Result<PathBuf, Fault> {
    let sources = project::c_files(&project.folder);
    if sources.is_empty() {
        project.file("src/tool.c")?;
    }
    project.file("wit/world.wit")?;
    let venv = Venv::open(project)?;
    let made = bindings::generate(project)?;
    let module = project.scratch("")?.join("module.wasm");
    let mut command = venv.python();
    command
        .args([
            "-m",
            "ziglang",
            "cc",
            "-target",
            "wasm32-wasi",
            "-mexec-model=reactor",
        ])
        .args(["-O2", "-s", "-Wall", "-Wextra", "-Isrc", STACK])
        .arg("-I")
        .arg(&made.folder)
        // Named as they lie in the project, and so in messages.
        .args(
            sources
                .iter()
                .map(|file| file.strip_prefix(&project.folder).unwrap_or(file)),
        )
        .args(&made.files)
        .arg("-o")
        .arg(&module)
        .current_dir(&project.folder);
    Step::new("`zig cc`", command).run().map_err(|fault| {
        fault.fix("the first error above is the one to look at; its file and line stand before it")
    })?;
    bindings::component(project, &module)
}
