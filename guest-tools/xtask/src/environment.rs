//! The environment in which cargo builds guests: one toolchain, and no settings of the machine that
//! could change the bytes of a component.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::toolchain::Toolchain;

/// Returns the cargo that runs this program.
pub(crate) fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns a cargo command that uses the toolchain.
pub(crate) fn cargo(toolchain: &Toolchain) -> Result<Command> {
    let mut cargo = Command::new(cargo_program());
    for (name, _) in env::vars_os() {
        if !inherits_variable(&name.to_string_lossy(), toolchain) {
            cargo.env_remove(name);
        }
    }
    // An empty wrapper overrides the one in a configuration file.
    cargo
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        .env("CARGO_INCREMENTAL", "0");
    if let Toolchain::Debian(folder) = toolchain {
        let bin = folder.join("bin");
        cargo
            .env("RUSTC", bin.join("rustc"))
            .env(
                "CARGO_TARGET_WASM32_WASIP2_LINKER",
                bin.join("wasm-component-ld"),
            )
            .env("PATH", path_with(bin)?);
    }
    Ok(cargo)
}

/// Returns the `PATH` with another folder first. `wasm-component-ld` and build scripts find
/// programs there.
pub(crate) fn path_with(first: PathBuf) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let context = format!("cannot put `{}` on the `PATH`", first.display());
    env::join_paths([first].into_iter().chain(env::split_paths(&path))).context(context)
}

/// Checks whether a command of [`cargo`] inherits an environment variable.
///
/// Of the variables of cargo, rustc and rustup, the command inherits only those that configure
/// registries, terminal output and caches. Cargo sets several of the others for this program.
fn inherits_variable(name: &str, toolchain: &Toolchain) -> bool {
    const NAMES: [&str; 3] = ["CARGO_HOME", "RUSTUP_HOME", "RUST_BACKTRACE"];
    const PREFIXES: [&str; 5] = [
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "CARGO_TERM_",
    ];
    let starts_with = |prefix: &&str| name.starts_with(*prefix);
    if !["CARGO", "RUST", "__CARGO"].iter().any(starts_with) {
        return true;
    }
    // Rustup reads the active toolchain from this variable.
    let selects_toolchain = matches!(toolchain, Toolchain::Active) && name == "RUSTUP_TOOLCHAIN";
    selects_toolchain || NAMES.contains(&name) || PREFIXES.iter().any(starts_with)
}

/// Returns compiler flags that keep this machine's folders out of binaries.
///
/// A panic message contains the path of its source, and the folder of a registry's sources is named
/// after the registry's host. `target` is cargo's target folder, if build scripts write sources
/// there.
pub(crate) fn remap_flags(root: &Path, target: Option<&Path>) -> Result<OsString> {
    let mut folders = vec![(root.to_owned(), "/src")];
    folders.extend(target.map(|target| (target.to_owned(), "/target")));
    let sources = cargo_home()?.join("registry").join("src");
    if sources.exists() {
        let context = || format!("cannot list `{}`", sources.display());
        for entry in fs::read_dir(&sources).with_context(context)? {
            folders.push((entry.with_context(context)?.path(), "/crates"));
        }
    }
    Ok(encode(folders))
}

/// Encodes the flags for `CARGO_ENCODED_RUSTFLAGS`, which allows spaces in paths.
fn encode(mut folders: Vec<(PathBuf, &str)>) -> OsString {
    // rustc uses the last matching flag, and a folder sorts before its subfolders. The order is
    // fixed because cargo rebuilds when the order changes.
    folders.sort();
    let mut flags = OsString::new();
    for (from, to) in folders {
        if !flags.is_empty() {
            flags.push("\u{1f}");
        }
        flags.push("--remap-path-prefix=");
        flags.push(from);
        flags.push("=");
        flags.push(to);
    }
    flags
}

fn cargo_home() -> Result<PathBuf> {
    let folder = match env::var_os("CARGO_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => env::home_dir()
            .context("neither `CARGO_HOME` nor `HOME` is set")?
            .join(".cargo"),
    };
    std::path::absolute(&folder).with_context(|| format!("cannot find `{}`", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_variables_that_change_bytes() {
        let debian = Toolchain::Debian("/cache/key".into());
        for name in [
            "CARGO",
            "CARGO_BUILD_TARGET_DIR",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS",
            "RUSTC_BOOTSTRAP",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(!inherits_variable(name, &debian), "{name}");
        }
        for name in ["PATH", "CARGO_HOME", "CARGO_HTTP_PROXY", "CARGO_TERM_COLOR"] {
            assert!(inherits_variable(name, &debian), "{name}");
        }
    }

    #[test]
    fn keeps_toolchain_that_rustup_chose() {
        assert!(inherits_variable("RUSTUP_TOOLCHAIN", &Toolchain::Active));
        assert!(!inherits_variable("RUSTFLAGS", &Toolchain::Active));
    }

    #[test]
    fn remaps_inner_folder_last() {
        let flags = encode(vec![
            ("/a b/registry/src/x".into(), "/crates"),
            ("/a b".into(), "/src"),
        ]);
        assert_eq!(
            flags,
            "--remap-path-prefix=/a b=/src\u{1f}--remap-path-prefix=/a b/registry/src/x=/crates"
        );
    }
}
