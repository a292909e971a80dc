//! Rust, by cargo for `wasm32-wasip2`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Fault;
use super::project::Project;
use super::step::{self, Step};

const TARGET: &str = "wasm32-wasip2";
/// How to get Rust.
const HOW: &str = "get Rust from https://rustup.rs, then `rustup target add wasm32-wasip2`";

pub(super) fn build(project: &Project) -> Result<PathBuf, Fault> {
    project.file("Cargo.toml")?;
    let cargo = program(project, "CARGO", "cargo")?;
    let rustc = program(project, "RUSTC", "rustc")?;
    has_target(project, &rustc)?;
    let mut command = project.programs.command(cargo);
    command
        .args(["build", "--release", "--target", TARGET, "--lib"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(&project.folder);
    let mut step = Step::new("`cargo build`", command);
    step.quiet = true;
    let messages = step.run().map_err(|fault| {
        fault
            .fix("the first error above is the one to look at; its file and line stand under it")
            .fix(
                "where `skillhost-guest` itself is not found: give `skillhost new` `--sdk-path` or \
                 `--sdk-version`, or change the line in `Cargo.toml`",
            )
    })?;
    let mut made = messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter_map(|message| component(&message));
    match made.next_back() {
        Some(file) => Ok(file),
        None => Err(Fault::project("`cargo build` made no component").fix(
            "`Cargo.toml` needs a library of this kind: `[lib]`, `crate-type = [\"cdylib\"]`",
        )),
    }
}

/// The program that a variable names, or one on the PATH.
fn program(project: &Project, variable: &str, name: &str) -> Result<OsString, Fault> {
    if let Some(named) = env::var_os(variable).filter(|named| !named.is_empty()) {
        return Ok(named);
    }
    let found = project.programs.find(name);
    found.map(Into::into).map_err(|fault| fault.fix(HOW))
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
        "{} is here without its target `{TARGET}`",
        version.as_deref().unwrap_or("Rust")
    ))
    .fix("`rustup target add wasm32-wasip2` gets it")
    .fix(
        "without rustup, a distribution's package has it (Debian 13: `libstd-rust-dev-wasm32`); \
         `RUSTC` and cargo's other variables name another compiler",
    ))
}

/// The component that a message of cargo's is about.
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
