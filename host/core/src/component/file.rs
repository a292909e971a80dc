//! A component file's bytes: read with a bound, refused by their first bytes,
//! and identified by a digest.

use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use crate::skill::guard::{Folder, HardLinks};

/// The largest component that is read. Guards against: a file that fills the
/// memory before anything is known about it. One made from Python has 18 MB.
pub(crate) const MAX_COMPONENT: u64 = 64 << 20;

/// Reads a component file if it is a regular file of a bounded size.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read = || -> anyhow::Result<Vec<u8>> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
        // The operator decides how many names the file has.
        let folder = Folder::new(folder.into_std_file().into(), HardLinks::Allowed)?;
        let file = folder.open_file(Path::new(path.file_name().unwrap_or_default()))?;
        if file.metadata()?.len() > MAX_COMPONENT {
            bail!("it is larger than {MAX_COMPONENT} bytes");
        }
        let mut bytes = Vec::new();
        file.take(MAX_COMPONENT).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read()
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
                        "it is a symlink that leads out of its folder: put the file there"
                    )
                }
                Some(io::ErrorKind::Unsupported) => {
                    anyhow::anyhow!("it is no regular file: name a `.wasm` file")
                }
                _ => error,
            }
        })
        .with_context(|| format!("cannot read the tool component `{}`", path.display()))
}

/// Refuses bytes that do not begin as a component does. The error tells a core
/// module, which compilers make first, from what is not WebAssembly at all.
pub(crate) fn check_header(bytes: &[u8]) -> anyhow::Result<()> {
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
