//! Finds the compiler to build guests with. `environment.rs` configures cargo to use it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The target of every guest.
pub(crate) const TARGET: &str = "wasm32-wasip2";

/// The choice of a compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Choice {
    /// The active Rust toolchain, with its wasm32-wasip2 target
    Active,
    /// The pinned compiler that the committed components are built with
    Debian,
}

/// An installed compiler.
pub(crate) enum Toolchain {
    Active,
    /// Debian's compiler, unpacked in this folder.
    Debian(PathBuf),
}

impl Toolchain {
    /// Returns the chosen compiler, and installs Debian's if necessary. Without a choice, returns
    /// the active one if it has the target, or else Debian's.
    pub(crate) fn provide(choice: Option<Choice>, root: &Path) -> Result<Self> {
        let uses_active = match choice {
            Some(Choice::Debian) => false,
            Some(Choice::Active) => {
                ensure!(
                    active_has_target()?,
                    "the active toolchain has no target `{TARGET}`: run `rustup target add {TARGET}`"
                );
                true
            }
            None => active_has_target().unwrap_or(false),
        };
        if uses_active {
            Ok(Self::Active)
        } else {
            debian(root).map(Self::Debian)
        }
    }

    /// Returns the target folder for cargo.
    ///
    /// Each pinned toolchain has its own, because cargo does not notice a changed linker or
    /// standard library of the same version.
    pub(crate) fn target_folder(&self, workspace: &Path) -> PathBuf {
        let target = workspace.join("target");
        match self {
            Self::Active => target,
            Self::Debian(folder) => match folder.file_name() {
                Some(key) => target.join("debian").join(key),
                None => target.join("debian"),
            },
        }
    }
}

fn active_has_target() -> Result<bool> {
    let sysroot = printed_path(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(sysroot.join("lib/rustlib").join(TARGET).is_dir())
}

/// Runs the script that installs Debian's compiler, and returns its folder.
fn debian(root: &Path) -> Result<PathBuf> {
    let script = root.join("guest-tools/toolchain.sh");
    printed_path(Command::new("sh").arg(script)).context("cannot install the debian toolchain")
}

/// Returns the path that a command prints as its only line.
fn printed_path(command: &mut Command) -> Result<PathBuf> {
    let name = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{name}`"))?;
    ensure!(
        output.status.success(),
        "`{name}` ended with {}",
        output.status
    );
    let text = String::from_utf8(output.stdout)
        .with_context(|| format!("`{name}` printed invalid UTF-8"))?;
    Ok(text.trim_end_matches(['\r', '\n']).into())
}
