//! Opens a regular file, after checking its kind.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use anyhow::bail;
use rustix::fs::{Mode, OFlags};

use crate::broker::Opener;
use crate::guard;

/// Opens a regular file for reading, through the broker if the process sandbox refuses it.
pub(crate) fn open(path: &Path, opener: &Opener) -> anyhow::Result<File> {
    guard::check_machine()?;
    let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    // Checks the kind before opening the file: opening a device can change its state, and the
    // process sandbox and the broker refuse other kinds without naming the reason.
    let found = File::from(handle.map_err(io::Error::from)?);
    check_kind(&found.metadata()?)?;
    let opened = guard::reopen(found.as_fd(), OFlags::RDONLY);
    let opened = opener.or_ask_broker(opened, || Ok(found.into()));
    Ok(File::from(opened.map_err(io::Error::from)?))
}

/// Checks that a file is a regular file.
///
/// # Errors
///
/// If it has another kind, which the error names.
pub fn check_kind(metadata: &Metadata) -> anyhow::Result<()> {
    let kind = metadata.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "folder",
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () => "device",
    };
    bail!("it is not a regular file but a {what}")
}
