//! C, compiled by `zig cc`, with bindings from `bindings.rs`.

use std::path::{Path, PathBuf};

use super::project::{self, Project};
use super::step::Step;
use super::venv::Venv;
use super::{Fault, bindings, debug};

/// A stack of 1 MiB. Zig's default of 16 MiB is a quarter of a call's memory, and
/// every sandbox starts with it.
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
    // Relative paths: for the compiler's messages, and because it takes a `%` or a `\` in a
    // path for something else.
    let inside = |path: &Path| {
        path.strip_prefix(&project.folder)
            .unwrap_or(path)
            .to_owned()
    };
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
        .args([
            "-O2",
            "-gline-tables-only",
            "-Wall",
            "-Wextra",
            "-Isrc",
            STACK,
        ])
        .arg("-I")
        .arg(inside(&made.folder))
        .args(sources.iter().chain(&made.files).map(|file| inside(file)))
        .arg("-o")
        .arg(inside(&module))
        .current_dir(&project.folder);
    Step::new("`zig cc`", command).run().map_err(|fault| {
        fault.fix("fix the first error above first; its file and line stand before it")
    })?;
    debug::split(project, &bindings::component(project, &module)?)
}
