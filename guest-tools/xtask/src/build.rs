//! Runs cargo to build guests.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::environment::{cargo, remap_flags};
use crate::toolchain::{TARGET, Toolchain};
use crate::workspace::{BUILT_IN_DIST, Guest};

/// The flag that makes calls of the built-in tools faster, with bulk copies of memory and SIMD.
/// Examples and test guests are built without it and without [`link_args`], as third-party tools
/// are.
const SPEED_FLAG: &str = "-Ctarget-feature=+bulk-memory,+simd128";

/// Builds the guests, and returns their components in the same order.
///
/// Each guest has its own run of cargo. In a single run, cargo would build a shared crate with the
/// features that any guest needs, so the bytes of a guest would depend on the other guests.
pub(crate) fn build(root: &Path, toolchain: &Toolchain, guests: &[Guest]) -> Result<Vec<Vec<u8>>> {
    let workspace = root.join("guest-tools");
    let manifest = workspace.join("Cargo.toml");
    let target_folder = toolchain.target_folder(&workspace);
    let artifacts = target_folder.join(TARGET).join("release");

    // The flags name the folder of the registry's sources, which a fetch creates.
    run(command(toolchain, "fetch", &manifest)?.arg("--quiet"))?;
    let flags = remap_flags(root, None)?;

    let mut built = Vec::new();
    for guest in guests {
        let mut flags = flags.clone();
        if guest.dist == BUILT_IN_DIST {
            flags.push("\u{1f}");
            flags.push(SPEED_FLAG);
        }
        run(command(toolchain, "rustc", &manifest)?
            .args(["--release", "--package", &guest.package, "--target-dir"])
            .arg(&target_folder)
            .env("CARGO_ENCODED_RUSTFLAGS", &flags)
            .arg("--")
            .args(link_args(guest)))
        .with_context(|| format!("cannot build `{}`", guest.package))?;
        let path = artifacts.join(&guest.target).with_extension("wasm");
        let bytes = fs::read(&path);
        built.push(bytes.with_context(|| format!("cargo did not build `{}`", path.display()))?);
    }
    Ok(built)
}

/// Returns the linker arguments of a guest. The built-in tools start with a small memory, because
/// the host resets it after each call. It has room for their heap.
fn link_args(guest: &Guest) -> Vec<String> {
    if guest.dist != BUILT_IN_DIST {
        return Vec::new();
    }
    let memory = if guest.package == "read-file-in-skill" {
        // This tool contains tables of legacy encodings.
        256 << 10
    } else {
        128 << 10
    };
    vec![
        "-Clink-arg=-zstack-size=16384".to_owned(),
        format!("-Clink-arg=--initial-memory={memory}"),
    ]
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
