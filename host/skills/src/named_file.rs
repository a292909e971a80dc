//! The opener of all files that an operator names: configurations, keys, tokens, certificates,
//! checkpoints, audit logs to verify, cases, and what a build reads. It waits for nobody, takes
//! regular files alone, and reads them up to a size.
//!
//! Not here: files of skills, and component files, which `skill/guard.rs` opens; and the file
//! that the audit log is appended to, which `tool/audit` opens.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{Mode, OFlags};

use crate::broker::retry_with_broker;
use crate::own_user::is_own_user;

/// The flags for a file of unknown kind: opening a FIFO must not wait for a writer, and a
/// terminal must not become this process's own.
pub const UNKNOWN_KIND: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// Opens a regular file for reading. A confined process may ask its broker.
///
/// # Errors
///
/// If it cannot be opened or is no regular file.
pub fn open(path: &Path) -> anyhow::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | UNKNOWN_KIND;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let handle = || rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let file = File::from(retry_with_broker(opened, handle).map_err(io::Error::from)?);
    check_kind(&file.metadata()?)?;
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
    if owner != 0 && !is_own_user(owner) {
        bail!("it belongs to another user");
    }
    Ok((file, metadata.mode()))
}

/// Refuses what is no regular file.
///
/// # Errors
///
/// If it is none. The error names its kind.
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

/// Reads an open file to its end.
///
/// # Errors
///
/// If it has more bytes than `most`, or cannot be read.
pub fn read_all(file: File, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= most, "it is larger than {most} bytes");
    Ok(bytes)
}

/// Reads an open file of text to its end.
///
/// # Errors
///
/// If it has more bytes than `most`, is no UTF-8, or cannot be read.
pub fn read_all_text(file: File, most: u64) -> anyhow::Result<String> {
    String::from_utf8(read_all(file, most)?).context("it is not UTF-8")
}

/// Reads a regular file.
///
/// # Errors
///
/// If it cannot be opened, is no regular file, or has more bytes than `most`.
pub fn read(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    read_all(open(path)?, most)
}

/// Reads a regular file of text.
///
/// # Errors
///
/// If it cannot be opened, is no regular file or no UTF-8, or has more bytes than `most`.
pub fn read_text(path: &Path, most: u64) -> anyhow::Result<String> {
    read_all_text(open(path)?, most)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType};
    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    fn started_programs_get_no_open_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for opened in [open, open_private, open_public].map(|open| open(file.path())) {
            let flags = fcntl_getfd(opened.unwrap()).unwrap();
            assert!(flags.contains(FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn reads_regular_files_up_to_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("text"), "12345").unwrap();
        std::fs::write(path("bytes"), b"\xff").unwrap();
        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let (none, folder, fifo) = (path("none"), path("."), path("fifo"));
        let device = Path::new("/dev/zero");
        for (path, most, expected) in [
            (&*path("text"), 5, Ok("12345")),
            (&path("text"), 4, Err("it is larger than 4 bytes")),
            (&path("bytes"), 5, Err("it is not UTF-8: ")),
            (&none, 5, Err("No such file")),
            (&folder, 5, Err("it is not a regular file but a folder")),
            (&fifo, 5, Err("it is not a regular file but a FIFO")),
            (device, 5, Err("it is not a regular file but a device")),
        ] {
            let read = read_text(path, most).map_err(|error| format!("{error:#}"));
            match expected {
                Ok(text) => assert_eq!(read.as_deref(), Ok(text), "{path:?}"),
                Err(why) => assert!(read.unwrap_err().starts_with(why), "{path:?}"),
            }
        }
    }
}
