//! Files that say who may do what: nobody but their owner may change them, nor read them
//! if they are secret.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{bail, ensure};
use rustix::fs::{Mode, OFlags, open as open_path};
use skillhost::internal::opened_or_asked;

/// Opens a secret file. It must belong to the user of this process or to root, and nobody
/// else may read or write it.
///
/// # Errors
///
/// If it does not, or cannot be opened.
pub fn open_secret(path: &Path) -> anyhow::Result<File> {
    let (file, mode) = open(path)?;
    ensure!(
        mode & 0o077 == 0,
        "users other than its owner may read or write it; set its mode to 0600"
    );
    Ok(file)
}

/// Opens a public file. It must belong to the user of this process or to root, and nobody
/// else may write it.
///
/// # Errors
///
/// If it does not, or cannot be opened.
pub fn open_public(path: &Path) -> anyhow::Result<File> {
    let (file, mode) = open(path)?;
    ensure!(
        mode & 0o022 == 0,
        "users other than its owner may write it; set its mode to 0644"
    );
    Ok(file)
}

fn open(path: &Path) -> anyhow::Result<(File, u32)> {
    // Opening a FIFO must not wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = open_path(path, flags, Mode::empty());
    // Behind the wall, files that change are opened by the broker.
    let handle = || open_path(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let file = File::from(opened_or_asked(opened, handle).map_err(io::Error::from)?);
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "it is not a regular file");
    let owner = metadata.uid();
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        bail!("it belongs to another user");
    }
    Ok((file, metadata.mode()))
}
