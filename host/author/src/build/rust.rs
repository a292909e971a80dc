//! Builds Rust with cargo for `wasm32-wasip2`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::project::Project;
use super::step::{self, Step};
use super::{BuildError, Purpose, debug};

const TARGET: &str = "wasm32-wasip2";
const RUST_ADVICE: &str = "get Rust from https://rustup.rs, then `rustup target add wasm32-wasip2`";

/// Profile settings of a trial build. With them, cargo recompiles only what a change affects.
/// Other settings, such as overflow checks, are those of a release.
const TRIAL_SETTINGS: [&str; 3] = ["lto=\"off\"", "codegen-units=16", "incremental=true"];

pub(super) fn build(project: &Project, purpose: Purpose) -> Result<PathBuf, BuildError> {
    project.file("Cargo.toml")?;
    let cargo = find_program(project, "CARGO", "cargo")?;
    let rustc = find_program(project, "RUSTC", "rustc")?;
    check_target(project, &rustc)?;
    let settings = match purpose {
        Purpose::Release => &[][..],
        Purpose::Trial => &TRIAL_SETTINGS,
    };
    let mut command = project.programs.command(cargo);
    command
        .args(["build", "--release", "--target", TARGET, "--lib"])
        .arg("--message-format=json-render-diagnostics")
        .args(line_table_options(project)?)
        .args(
            settings
                .iter()
                .map(|setting| format!("--config=profile.release.{setting}")),
        )
        .current_dir(&project.folder);
    let mut step = Step::new("`cargo build`", command);
    step.is_captured = true;
    let messages = step.run().map_err(|error| {
        let error = error
            .fix("fix the first error above; its file and line are below it")
            .fix("the first build needs cargo's registry, and so do changed dependencies");
        match project.text("Cargo.toml") {
            Ok(text) if text.contains("skillhost-guest") => error.fix(
                "if `skillhost-guest` was not found, copy the folder `sdk` from a new project of \
                 `skillhost new`, and write `skillhost-guest = { path = \"sdk\" }` in `Cargo.toml`",
            ),
            _ => error,
        }
    })?;
    let component = messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter_map(|message| built_component(&message))
        .next_back();
    match component {
        Some(file) => debug::split(project, &file),
        None => Err(BuildError::project("`cargo build` made no component")
            .fix("`Cargo.toml` needs `[lib]` with `crate-type = [\"cdylib\"]`")),
    }
}

/// Returns the fields of the project's package, including those inherited from a workspace.
pub(super) fn package(project: &Project) -> Result<Value, BuildError> {
    let package = manifest_package(project)?;
    let inherits = |value: &Value| value.get("workspace").is_some();
    let fields = package.as_object().into_iter();
    let mut values = fields.flat_map(|fields| fields.values());
    // `cargo metadata` takes a moment, and is needed only to resolve inherited fields.
    if package["version"].is_string() && !values.any(inherits) {
        return Ok(package);
    }
    let manifest = project.file("Cargo.toml")?;
    let mut command = project
        .programs
        .command(find_program(project, "CARGO", "cargo")?);
    command
        .args(["metadata", "--no-deps", "--format-version=1"])
        .current_dir(&project.folder);
    let mut step = Step::new("`cargo metadata`", command);
    step.is_captured = true;
    let metadata: Value = serde_json::from_slice(&step.run()?).unwrap_or_default();
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["manifest_path"].as_str() == manifest.to_str());
    Ok(package.cloned().unwrap_or_default())
}

/// Returns the table `[package]` of the manifest, or null if only cargo can read it.
fn manifest_package(project: &Project) -> Result<Value, BuildError> {
    let manifest = toml::from_str::<toml::Table>(&project.text("Cargo.toml")?);
    let package = manifest.ok().and_then(|mut all| all.remove("package"));
    Ok(serde_json::to_value(package).unwrap_or_default())
}

/// Returns the program that an environment variable names, or else the one on the PATH.
fn find_program(project: &Project, variable: &str, name: &str) -> Result<OsString, BuildError> {
    if let Some(named) = env::var_os(variable).filter(|named| !named.is_empty()) {
        return Ok(named);
    }
    let program = project.programs.find(name);
    program
        .map(Into::into)
        .map_err(|error| error.fix(RUST_ADVICE))
}

/// Returns options that add line tables to the project's crate, for traces. The shipped component
/// has none.
fn line_table_options(project: &Project) -> Result<Vec<String>, BuildError> {
    let package = manifest_package(project)?;
    let is_plain = |name: &&str| {
        let mut bytes = name.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    // Cargo itself reports a missing or invalid name.
    let name = package["name"].as_str().filter(is_plain);
    let settings = [("debug", "line-tables-only"), ("strip", "none")];
    let options = name.into_iter().flat_map(|name| {
        settings.map(|(key, value)| {
            format!("--config=profile.release.package.{name}.{key}=\"{value}\"")
        })
    });
    Ok(options.collect())
}

/// Refuses a Rust toolchain without the target.
fn check_target(project: &Project, rustc: &OsString) -> Result<(), BuildError> {
    let rustc = || project.programs.command(rustc);
    let folder = step::output(rustc().args(["--print", "target-libdir", "--target", TARGET]));
    if folder.is_some_and(|folder| Path::new(&folder).is_dir()) {
        return Ok(());
    }
    let version = step::output(rustc().arg("--version"));
    Err(BuildError::setup(format!(
        "{} has no target `{TARGET}`",
        version.as_deref().unwrap_or("Rust")
    ))
    .fix("with rustup: `rustup target add wasm32-wasip2`")
    .fix(
        "with Debian 13's own Rust: `apt install libstd-rust-dev-wasm32 lld`, and `cargo install \
         --locked wasm-component-ld`",
    )
    .fix(
        "without root, on amd64 with apt: `guest-tools/toolchain.sh` of skillhost's sources unpacks \
         Debian's packages and prints their folder; then put its `bin` first in `PATH`, with `rustc`, \
         `wasm-component-ld` and `wasm-ld`",
    ))
}

/// Returns the component that a message of cargo names, if any.
fn built_component(message: &Value) -> Option<PathBuf> {
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
