//! The guard at open: what lies at a path is looked at before it is opened,
//! and only regular files and directories are. A FIFO would block for ever, a
//! device may act on being opened.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::DecInt;

/// What was found at a path. It is not open for reading yet.
#[derive(Debug)]
pub(crate) enum Found {
    /// A regular file.
    File(OwnedFd),
    /// A directory.
    Directory(OwnedFd),
}

/// Looks at what a path names in a folder, without opening it. The path is
/// resolved in the folder by cap-std, which lets no step of it, and no
/// symlink, lead outside: that is `EPERM`. What is neither file nor directory
/// is `ENOTSUP`.
pub(crate) fn look(folder: &Dir, path: &Path, follow: bool) -> io::Result<Found> {
    let mut flags = OFlags::PATH;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let seen: OwnedFd = folder.open_with(path, &options)?.into_std().into();
    match FileType::from_raw_mode(rustix::fs::fstat(&seen)?.st_mode) {
        FileType::RegularFile => Ok(Found::File(seen)),
        FileType::Directory => Ok(Found::Directory(seen)),
        FileType::Symlink => Err(Errno::LOOP.into()),
        _ => Err(Errno::NOTSUP.into()),
    }
}

/// Opens the very file that was looked at, for reading. Going through its
/// descriptor and not through its path leaves no moment to put another in its
/// place.
pub(crate) fn open_seen(seen: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let opened = rustix::fs::openat(
        rustix_linux_procfs::proc_self_fd()?,
        DecInt::from_fd(seen.as_fd()),
        flags,
        Mode::empty(),
    )?;
    Ok(File::from(opened))
}

/// Opens a regular file for reading.
pub(crate) fn open_file(folder: &Dir, path: &Path) -> io::Result<File> {
    match look(folder, path, true)? {
        Found::File(seen) => open_seen(&seen),
        Found::Directory(_) => Err(Errno::ISDIR.into()),
    }
}

/// Whether this machine has what the guard needs: `/proc`, to open what was
/// looked at.
pub(crate) fn check_machine() -> anyhow::Result<()> {
    use anyhow::Context as _;
    rustix_linux_procfs::proc_self_fd()
        .context("`/proc` is not mounted; skillhost needs it to open files safely")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;
    use std::time::{Duration, Instant};

    #[test]
    fn only_files_and_directories_are_opened_and_nothing_blocks() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        std::fs::write(path.join("file"), "x").unwrap();
        std::fs::create_dir(path.join("dir")).unwrap();
        std::os::unix::fs::symlink("file", path.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path.join("out")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path.join("fifo"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
        let folder = Dir::open_ambient_dir(path, ambient_authority()).unwrap();

        let start = Instant::now();
        for (name, expected) in [
            ("file", None),
            ("link", None),
            ("dir", Some(Errno::ISDIR)),
            ("fifo", Some(Errno::NOTSUP)),
            ("socket", Some(Errno::NOTSUP)),
            ("out", Some(Errno::PERM)),
            ("../x", Some(Errno::PERM)),
            ("/etc/passwd", Some(Errno::PERM)),
            ("none", Some(Errno::NOENT)),
            ("file/x", Some(Errno::NOTDIR)),
        ] {
            let error = open_file(&folder, Path::new(name))
                .err()
                .map(|error| Errno::from_io_error(&error));
            // cap-std's own refusals carry no errno; they are "permission denied".
            let error = error.map(|errno| errno.unwrap_or(Errno::PERM));
            assert_eq!(error, expected, "{name}");
        }
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
