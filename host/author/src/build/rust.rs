//! Rust, compiled by cargo for `wasm32-wasip2`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::project::Project;
use super::step::{self, Step};
use super::{Fault, Purpose, debug};

const TARGET: &str = "wasm32-wasip2";
const HOW: &str = "get Rust from https://rustup.rs, then `rustup target add wasm32-wasip2`";

/// Settings of a build for tests: a change compiles again what it changes, and not the
/// whole program. The rest of the profile, such as its checks of overflows, stays.
const TRIAL: [&str; 3] = ["lto=\"off\"", "codegen-units=16", "incremental=true"];

pub(super) fn build(project: &Project, purpose: Purpose) -> Result<PathBuf, Fault> {
    project.file("Cargo.toml")?;
    let cargo = program(project, "CARGO", "cargo")?;
    let rustc = program(project, "RUSTC", "rustc")?;
    has_target(project, &rustc)?;
    let lines = with_lines(project)?;
    let settings = match purpose {
        Purpose::Release => &[][..],
        Purpose::Trial => &TRIAL,
    };
    let mut command = project.programs.command(cargo);
    command
        .args(["build", "--release", "--target", TARGET, "--lib"])
        .arg("--message-format=json-render-diagnostics")
        .args(lines)
        .args(
            settings
                .iter()
                .map(|it| format!("--config=profile.release.{it}")),
        )
        .current_dir(&project.folder);
    let mut step = Step::new("`cargo build`", command);
    step.is_captured = true;
    let messages = step.run().map_err(|fault| {
        let fault = fault
            .fix("fix the first error above first; its file and line stand under it")
            .fix("the first build, and one after a change of dependencies, needs cargo's registry");
        match project.text("Cargo.toml") {
            Ok(text) if text.contains("skillhost-guest") => fault.fix(
                "if `skillhost-guest` was not found, copy `sdk` from a new project of `skillhost \
                 new`, and change its line in `Cargo.toml`",
            ),
            _ => fault,
        }
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

/// Returns what the project's package says of itself, with what it inherits from a
/// workspace.
pub(super) fn package(project: &Project) -> Result<Value, Fault> {
    let own = manifest(project)?;
    let inherits = |value: &Value| value.get("workspace").is_some();
    let mut values = own.as_object().into_iter().flat_map(|own| own.values());
    // Cargo takes a moment to say what stands there.
    if own["version"].is_string() && !values.any(inherits) {
        return Ok(own);
    }
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

/// Returns the table `[package]` of the project, or nothing if only cargo can read it.
fn manifest(project: &Project) -> Result<Value, Fault> {
    let manifest = toml::from_str::<toml::Table>(&project.text("Cargo.toml")?);
    let package = manifest.ok().and_then(|mut all| all.remove("package"));
    Ok(serde_json::to_value(package).unwrap_or_default())
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
fn with_lines(project: &Project) -> Result<Vec<String>, Fault> {
    let package = manifest(project)?;
    let is_plain = |name: &&str| {
        let mut bytes = name.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    // Without a name, or with a wrong one, cargo says what is wrong with the manifest.
    let name = package["name"].as_str().filter(is_plain);
    let settings = [("debug", "line-tables-only"), ("strip", "none")];
    let lines = name.into_iter().flat_map(|name| {
        settings.map(|(key, value)| {
            format!("--config=profile.release.package.{name}.{key}=\"{value}\"")
        })
    });
    Ok(lines.collect())
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
         Debian's packages and prints their folder; then put its `bin` first in `PATH`, which has \
         `rustc`, `wasm-component-ld` and `wasm-ld`",
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
