//! Reads component files, with a size limit and a check of the first bytes.

use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use skillhost_skills::broker::Opener;
use skillhost_skills::guard::{Folder, HardLinks};
use skillhost_skills::named_file;

/// The maximum size of a component, in bytes. Guards against: a file that fills the memory before
/// it is checked. A component made from Python has 18 MB.
pub(crate) const MAX_COMPONENT: u64 = 64 << 20;

/// Reads a component file. Fails if it is not a regular file, or is too large.
pub fn read(path: &Path, opener: &Opener) -> anyhow::Result<Vec<u8>> {
    read_bounded(path, MAX_COMPONENT, opener)
        .map_err(|error| {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            match kind {
                _ if path.is_dir() => {
                    anyhow::anyhow!("it is a folder: name the `.wasm` file in it")
                }
                Some(io::ErrorKind::NotFound) => anyhow::anyhow!(
                    "the file does not exist; `skillhost build` makes one from a tool project"
                ),
                Some(io::ErrorKind::PermissionDenied) if path.is_symlink() => {
                    anyhow::anyhow!(
                        "it is a symlink that leads out of its folder: put the file itself there"
                    )
                }
                _ => error,
            }
        })
        .with_context(|| format!("cannot read the tool component `{}`", path.display()))
}

/// Reads a file in a tools folder. Fails if it is not a regular file, or has more than `max` bytes.
pub(crate) fn read_bounded(path: &Path, max: u64, opener: &Opener) -> anyhow::Result<Vec<u8>> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
    // Hard links are fine: the operator controls the file.
    let handle = folder.into_std_file().into();
    let folder = Folder::new(handle, HardLinks::Allowed, opener.clone())?;
    let opened = folder.open_file(Path::new(path.file_name().unwrap_or_default()));
    let file = match opened.map_err(|error| (error.kind(), error)) {
        Ok(file) => file,
        Err((io::ErrorKind::Unsupported | io::ErrorKind::IsADirectory, error)) => {
            // The error of `check_kind` names the kind of the file.
            named_file::check_kind(&std::fs::metadata(path)?)?;
            return Err(error.into());
        }
        Err((_, error)) => return Err(error.into()),
    };
    if file.metadata()?.len() > max {
        bail!("it is larger than {max} bytes");
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses bytes that do not start like a component. The error is different for core modules,
/// which compilers make on the way to a component.
pub fn check_header(bytes: &[u8]) -> anyhow::Result<()> {
    if !bytes.starts_with(b"\0asm") {
        bail!(
            "it is not WebAssembly, which begins with the bytes `\\0asm`; `skillhost build` makes \
             a component from a tool project"
        );
    }
    if bytes.starts_with(b"\0asm\x01\0\0\0") {
        bail!(
            "it is a core module, not a component: build it for `wasm32-wasip2` or with \
             `skillhost build`"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn reads_file_in_current_folder() {
        // Tests run in the package's folder.
        assert_eq!(
            read(Path::new("Cargo.toml"), &Opener::DIRECT).unwrap(),
            fs::read("Cargo.toml").unwrap()
        );
    }

    #[test]
    fn refuses_a_component_over_the_size_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.wasm");
        let file = File::create(&path).unwrap();
        file.set_len(MAX_COMPONENT).unwrap();
        assert_eq!(
            read(&path, &Opener::DIRECT).unwrap().len() as u64,
            MAX_COMPONENT
        );
        file.set_len(MAX_COMPONENT + 1).unwrap();
        let error = format!("{:#}", read(&path, &Opener::DIRECT).unwrap_err());
        assert!(
            error.ends_with("it is larger than 67108864 bytes"),
            "{error}"
        );
    }

    fn refusal(file: &Path) -> String {
        let error = format!("{:#}", read(file, &Opener::DIRECT).unwrap_err());
        let place = format!("cannot read the tool component `{}`: ", file.display());
        error.strip_prefix(&place).unwrap().to_owned()
    }

    #[test]
    fn explains_unreadable_component() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("below/folder.wasm")).unwrap();
        fs::write(path("outside.wasm"), "text").unwrap();
        symlink("../outside.wasm", path("below/link.wasm")).unwrap();
        let fifo = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, path("below/fifo.wasm"), FileType::Fifo, fifo, 0).unwrap();
        for (name, why) in [
            ("folder", "it is a folder: name the `.wasm` file in it"),
            (
                "none",
                "the file does not exist; `skillhost build` makes one from a tool project",
            ),
            (
                "link",
                "it is a symlink that leads out of its folder: put the file itself there",
            ),
            ("fifo", "it is not a regular file but a FIFO"),
        ] {
            let file = path(&format!("below/{name}.wasm"));
            assert_eq!(refusal(&file), why);
        }
        // Even root cannot read this file.
        let why = refusal(Path::new("/proc/sys/vm/drop_caches"));
        assert_eq!(why, "Permission denied (os error 13)");
    }

    #[test]
    fn names_the_kind_of_a_definitions_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("folder")).unwrap();
        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for (name, kind) in [("folder", "folder"), ("fifo", "FIFO")] {
            let error = read_bounded(&path(name), 9, &Opener::DIRECT)
                .unwrap_err()
                .to_string();
            assert_eq!(error, format!("it is not a regular file but a {kind}"));
        }
    }

    #[test]
    fn distinguishes_core_modules_from_other_files() {
        let why = |bytes: &[u8]| check_header(bytes).unwrap_err().to_string();
        assert!(why(b"#!/bin/sh").starts_with("it is not WebAssembly"));
        assert!(why(b"").starts_with("it is not WebAssembly"));
        assert!(why(b"\0asm\x01\0\0\0").starts_with("it is a core module"));
        assert!(check_header(b"\0asm\x0d\0\x01\0").is_ok());
    }
}
