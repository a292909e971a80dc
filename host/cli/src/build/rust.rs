//! Rust, compiled by cargo for `wasm32-wasip2`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::project::Project;
use super::step::{self, Step};
use super::{Fault, debug};

const TARGET: &str = "wasm32-wasip2";
const HOW: &str = "get Rust from https://rustup.rs, then `rustup target add wasm32-wasip2`";

pub(super) fn build(project: &Project) -> Result<PathBuf, Fault> {
    project.file("Cargo.toml")?;
    let cargo = program(project, "CARGO", "cargo")?;
    let rustc = program(project, "RUSTC", "rustc")?;
    has_target(project, &rustc)?;
    let lines = with_lines(project, &cargo);
    let mut command = project.programs.command(cargo);
    command
        .args(["build", "--release", "--target", TARGET, "--lib"])
        .arg("--message-format=json-render-diagnostics")
        .args(lines)
        .current_dir(&project.folder);
    let mut step = Step::new("`cargo build`", command);
    step.is_captured = true;
    let messages = step.run().map_err(|fault| {
        fault
            .fix("fix the first error above first; its file and line stand under it")
            .fix(
                "if `skillhost-guest` was not found, copy `sdk` from a new project of `skillhost \
                 new`, and change its line in `Cargo.toml`",
            )
    })?;
    let mut made = messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter_map(|message| component(&message));
    match made.next_back() {
        Some(file) => debug::split(project, &file),
        None => Err(Fault::project("`cargo build` made no component")
            .fix("`Cargo.toml` needs `[lib]` with `crate-type = [\"cdylib\"]`")),
    }
}

/// Returns cargo's description of the project's package, with what it inherits from a
/// workspace.
pub(super) fn package(project: &Project) -> Result<Value, Fault> {
    let manifest = project.file("Cargo.toml")?;
    let mut command = project
        .programs
        .command(program(project, "CARGO", "cargo")?);
    command
        .args(["metadata", "--no-deps", "--format-version=1"])
        .current_dir(&project.folder);
    let mut step = Step::new("`cargo metadata`", command);
    step.is_captured = true;
    let metadata: Value = serde_json::from_slice(&step.run()?).unwrap_or_default();
    let packages = metadata["packages"].as_array();
    let mut packages = packages.into_iter().flatten();
    let own = packages.find(|package| package["manifest_path"].as_str() == manifest.to_str());
    Ok(own.cloned().unwrap_or_default())
}

/// Returns the program that a variable names, else the one on the PATH.
fn program(project: &Project, variable: &str, name: &str) -> Result<OsString, Fault> {
    if let Some(named) = env::var_os(variable).filter(|named| !named.is_empty()) {
        return Ok(named);
    }
    let found = project.programs.find(name);
    found.map(Into::into).map_err(|fault| fault.fix(HOW))
}

/// Returns arguments by which the project's own crate has the lines of its source, for
/// traces; what is shipped is stripped. Its dependencies are compiled as they would be.
fn with_lines(project: &Project, cargo: &OsString) -> Vec<String> {
    let mut ask = project.programs.command(cargo);
    ask.args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(&project.folder);
    let metadata = step::ask(&mut ask).unwrap_or_default();
    let metadata: Value = serde_json::from_str(&metadata).unwrap_or_default();
    let manifest = project.folder.join("Cargo.toml");
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut own = packages
        .filter(|package| package["manifest_path"].as_str().map(Path::new) == Some(&manifest));
    // Without the name, cargo says below what is wrong with the manifest.
    let name = own.next().and_then(|package| package["name"].as_str());
    let settings = [("debug", "line-tables-only"), ("strip", "none")];
    name.into_iter()
        .flat_map(|name| {
            settings.map(|(key, value)| {
                format!("--config=profile.release.package.{name}.{key}=\"{value}\"")
            })
        })
        .collect()
}

fn has_target(project: &Project, rustc: &OsString) -> Result<(), Fault> {
    let rustc = || project.programs.command(rustc);
    let mut ask = rustc();
    ask.args(["--print", "target-libdir", "--target", TARGET]);
    let folder = step::ask(&mut ask);
    if folder.is_some_and(|folder| Path::new(&folder).is_dir()) {
        return Ok(());
    }
    let version = step::ask(rustc().arg("--version"));
    Err(Fault::missing(format!(
        "{} lacks the target `{TARGET}`",
        version.as_deref().unwrap_or("Rust")
    ))
    .fix("with rustup: `rustup target add wasm32-wasip2`")
    .fix(
        "with Debian 13's own Rust: `apt install libstd-rust-dev-wasm32 lld`, and `cargo install \
         --locked wasm-component-ld`",
    )
    .fix(
        "without root, on amd64 with apt: `guest-tools/toolchain.sh` of skillhost's sources unpacks \
         Debian's packages and prints their folder; then set `RUSTC` to its `bin/rustc`, and \
         `CARGO_TARGET_WASM32_WASIP2_LINKER` to its `bin/wasm-component-ld`",
    ))
}

/// Returns the component that a message of cargo names.
fn component(message: &Value) -> Option<PathBuf> {
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    message["filenames"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .find(|file| file.ends_with(".wasm"))
        .map(PathBuf::from)
}
