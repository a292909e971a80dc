//! Runs cargo to build guests.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::environment::{cargo, remap_flags};
use crate::toolchain::{TARGET, Toolchain};
use crate::workspace::{Guest, OWN_DIST};

/// What every call of the host's own tools would pay for: copying memory byte by
/// byte, looking through a stack of a mebibyte for what was written to it, and
/// growing a memory that has no room for a heap.
/// Examples and the tests' guests are built as a third party's would be.
const FOR_SPEED: [&str; 3] = [
    "-Ctarget-feature=+bulk-memory,+simd128",
    "-Clink-arg=-zstack-size=131072",
    "-Clink-arg=--initial-memory=655360",
];

/// Builds the guests and reads what came out, in their order.
///
/// Each has a run of cargo to itself. In one run, cargo would build a shared
/// crate once, with the features that any of the guests asks for, and the
/// bytes of a guest would depend on which others are built beside it.
pub(crate) fn build(root: &Path, toolchain: &Toolchain, guests: &[Guest]) -> Result<Vec<Vec<u8>>> {
    let workspace = root.join("guest-tools");
    let manifest = workspace.join("Cargo.toml");
    let target_folder = toolchain.target_folder(&workspace);
    let artefacts = target_folder.join(TARGET).join("release");

    // The registry's folder exists only when something was fetched from it,
    // and its name is needed before anything is compiled.
    run(command(toolchain, "fetch", &manifest)?.arg("--quiet"))?;
    let flags = remap_flags(root)?;

    let mut built = Vec::new();
    for guest in guests {
        let mut flags = flags.clone();
        for flag in FOR_SPEED.iter().filter(|_| guest.dist == OWN_DIST) {
            flags.push("\u{1f}");
            flags.push(flag);
        }
        run(command(toolchain, "build", &manifest)?
            .args(["--release", "--package", &guest.package, "--target-dir"])
            .arg(&target_folder)
            .env("CARGO_ENCODED_RUSTFLAGS", &flags))
        .with_context(|| format!("cannot build `{}`", guest.package))?;
        let path = artefacts.join(&guest.target).with_extension("wasm");
        let bytes = fs::read(&path);
        built.push(bytes.with_context(|| format!("cargo has not built `{}`", path.display()))?);
    }
    Ok(built)
}

fn command(toolchain: &Toolchain, verb: &str, manifest: &Path) -> Result<Command> {
    let mut command = cargo(toolchain)?;
    command
        .args([verb, "--locked", "--target", TARGET, "--manifest-path"])
        .arg(manifest);
    Ok(command)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo ended with {status}");
    Ok(())
}
