//! Builds C with `zig cc` and the bindings of `bindings.rs`.

use std::path::{Path, PathBuf};

use super::project::{self, Project};
use super::step::Step;
use super::venv::Venv;
use super::{BuildError, bindings, debug};

/// The option for a stack of 1 MiB. Zig's default of 16 MiB is a quarter of a call's memory, and
/// every sandbox gets the whole stack at its start.
const STACK_OPTION: &str = "-Wl,-z,stack-size=1048576";

pub(super) fn build(project: &Project) -> Result<PathBuf, BuildError> {
    let sources = project::c_files(&project.folder);
    if sources.is_empty() {
        project.file("src/tool.c")?;
    }
    project.file("wit/world.wit")?;
    let venv = Venv::open(project)?;
    let bindings = bindings::generate(project)?;
    let module = project.build_folder("")?.join("module.wasm");
    // Relative paths make the compiler's messages shorter. They also keep `%` and `\` in the
    // names of parent folders out of the arguments, where both are special.
    let relative = |path: &Path| {
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
            STACK_OPTION,
        ])
        .arg("-I")
        .arg(relative(&bindings.folder))
        .args(
            sources
                .iter()
                .chain(&bindings.files)
                .map(|file| relative(file)),
        )
        .arg("-o")
        .arg(relative(&module))
        .current_dir(&project.folder);
    Step::new("`zig cc`", command)
        .run()
        .map_err(|error| error.fix("fix the first error above; its file and line are before it"))?;
    debug::split(project, &bindings::make_component(project, &module)?)
}
