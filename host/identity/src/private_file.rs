//! Files that are read at the start, and again when they change, and whose they may be.
//! Not here: what a file holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{bail, ensure};
use rustix::fs::{Mode, OFlags, open as open_path};
use skillhost::internal::opened_or_asked;

/// Opens a regular file for reading. A process behind a wall asks for it.
fn open(path: &Path) -> anyhow::Result<File> {
    // Opening a FIFO must not wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = open_path(path, flags, Mode::empty());
    let handle = || open_path(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let file = File::from(opened_or_asked(opened, handle).map_err(io::Error::from)?);
    ensure!(file.metadata()?.is_file(), "it is not a regular file");
    Ok(file)
}

/// Opens a file that holds a secret: it must belong to the user of this process or to
/// root, and nobody else may read or write it.
///
/// # Errors
///
/// If it cannot be opened, is no regular file, or others have access to it.
pub fn open_private(path: &Path) -> anyhow::Result<File> {
    let (file, mode) = open_own(path)?;
    ensure!(
        mode & 0o077 == 0,
        "users other than its owner may read or write it; set its mode to 0600"
    );
    Ok(file)
}

/// Opens a public file: it must belong to the user of this process or to root, and nobody
/// else may write it.
///
/// # Errors
///
/// If it cannot be opened, is no regular file, or others may write it.
pub fn open_public(path: &Path) -> anyhow::Result<File> {
    let (file, mode) = open_own(path)?;
    ensure!(
        mode & 0o022 == 0,
        "users other than its owner may write it; set its mode to 0644"
    );
    Ok(file)
}

fn open_own(path: &Path) -> anyhow::Result<(File, u32)> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        bail!("it belongs to another user");
    }
    Ok((file, metadata.mode()))
}

#[cfg(test)]
mod tests {
    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    fn a_program_that_is_started_gets_no_open_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for opened in [open_private(file.path()), open_public(file.path())] {
            let flags = fcntl_getfd(opened.unwrap()).unwrap();
            assert!(flags.contains(FdFlags::CLOEXEC));
        }
    }
}
