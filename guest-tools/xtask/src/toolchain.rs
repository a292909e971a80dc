//! The compilers that guests can be built with, and how to come by them. How
//! cargo is made to use one is told in `environment.rs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The target of every guest.
pub(crate) const TARGET: &str = "wasm32-wasip2";

/// Which compiler builds the guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Choice {
    /// The Rust that cargo uses here, with its wasm32-wasip2 target
    Active,
    /// The pinned compiler that the committed components are built with
    Debian,
}

/// A compiler that is there.
pub(crate) enum Toolchain {
    Active,
    /// Unpacked in this folder.
    Debian(PathBuf),
}

impl Toolchain {
    /// Provides the compiler that was asked for; without a wish the active one
    /// if it knows the target, else Debian's.
    pub(crate) fn provide(wish: Option<Choice>, root: &Path) -> Result<Self> {
        let installed = match wish {
            Some(Choice::Debian) => false,
            Some(Choice::Active) => {
                ensure!(
                    active_has_target()?,
                    "the active toolchain has no target `{TARGET}`, try `rustup target add {TARGET}`"
                );
                true
            }
            // A Rust that cannot be asked is one that has not the target.
            None => active_has_target().unwrap_or(false),
        };
        if installed {
            Ok(Self::Active)
        } else {
            debian(root).map(Self::Debian)
        }
    }

    /// The folder for what cargo builds on the way. Cargo does not see when a
    /// pinned linker or standard library changes under the same version, so
    /// each pinned toolchain, named by its key, has a folder of its own.
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
    let sysroot = answer(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(sysroot.join("lib/rustlib").join(TARGET).is_dir())
}

/// Runs the script that provides Debian's compiler, and reads its folder.
fn debian(root: &Path) -> Result<PathBuf> {
    let script = root.join("guest-tools/toolchain.sh");
    answer(Command::new("sh").arg(script)).context("the debian toolchain cannot be had")
}

/// The path that a command prints as its only line.
fn answer(command: &mut Command) -> Result<PathBuf> {
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
    let text =
        String::from_utf8(output.stdout).with_context(|| format!("`{name}` printed no text"))?;
    Ok(text.trim_end_matches(['\r', '\n']).into())
}
