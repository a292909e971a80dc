//! The environment that cargo builds guests in: one toolchain, and of what
//! else is set on the machine nothing that could reach a component's bytes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::toolchain::Toolchain;

/// The cargo that runs this program.
pub(crate) fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A cargo that uses the toolchain.
pub(crate) fn cargo(toolchain: &Toolchain) -> Result<Command> {
    let mut cargo = Command::new(cargo_program());
    for (name, _) in env::vars_os() {
        if !keeps(&name.to_string_lossy(), toolchain) {
            cargo.env_remove(name);
        }
    }
    // An empty wrapper overrides the one of a configuration file.
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

/// `wasm-component-ld` and build scripts find their programs by the path.
fn path_with(first: PathBuf) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let context = format!("cannot put `{}` on the path", first.display());
    env::join_paths([first].into_iter().chain(env::split_paths(&path))).context(context)
}

/// Of the variables that cargo, rustc and rustup read, only those stay that
/// say how to reach a registry, how to print, and where the caches are.
/// `cargo xtask` itself sets several of the others.
fn keeps(name: &str, toolchain: &Toolchain) -> bool {
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
    // It says which toolchain is the active one.
    let active = matches!(toolchain, Toolchain::Active) && name == "RUSTUP_TOOLCHAIN";
    active || NAMES.contains(&name) || PREFIXES.iter().any(starts_with)
}

/// The flags that keep this machine's folders out of the components: a panic
/// message carries the path of its source, and the name of a registry's folder
/// carries a host.
pub(crate) fn remap_flags(root: &Path) -> Result<OsString> {
    let mut folders = vec![(root.to_owned(), "/src")];
    let sources = cargo_home()?.join("registry").join("src");
    if sources.exists() {
        let context = || format!("cannot list `{}`", sources.display());
        for entry in fs::read_dir(&sources).with_context(context)? {
            folders.push((entry.with_context(context)?.path(), "/crates"));
        }
    }
    Ok(encode(folders))
}

/// Writes the flags as `CARGO_ENCODED_RUSTFLAGS` has them, where a space in a
/// path does no harm.
fn encode(mut folders: Vec<(PathBuf, &str)>) -> OsString {
    // rustc takes the last flag that fits, and a folder sorts before what is
    // inside it. Cargo builds anew when the order changes.
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
    fn what_decides_bytes_is_dropped_and_what_reaches_a_registry_is_kept() {
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
            assert!(!keeps(name, &debian), "{name}");
        }
        for name in ["PATH", "CARGO_HOME", "CARGO_HTTP_PROXY", "CARGO_TERM_COLOR"] {
            assert!(keeps(name, &debian), "{name}");
        }
    }

    #[test]
    fn the_active_toolchain_stays_the_one_that_rustup_chose() {
        assert!(keeps("RUSTUP_TOOLCHAIN", &Toolchain::Active));
        assert!(!keeps("RUSTFLAGS", &Toolchain::Active));
    }

    #[test]
    fn a_folder_inside_the_checkout_is_remapped_after_the_checkout() {
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
