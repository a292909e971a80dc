//! The file of a Unix socket, which is removed when its server ends.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, open, openat, statat, unlinkat};

/// The file of a Unix socket. Dropping it removes the file, unless another file has replaced it.
///
/// While this type holds the file open, the kernel does not give the file's inode number to another
/// file.
#[derive(Debug)]
pub struct SocketFile {
    folder: OwnedFd,
    name: OsString,
    handle: OwnedFd,
}

impl SocketFile {
    /// Opens the socket file at a path, without following a symlink.
    ///
    /// # Errors
    ///
    /// Fails if the file does not exist or cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = Path::new(".").join(path.parent().unwrap_or(Path::new("")));
        let folder = open(parent, flags | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self {
            handle: openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?,
            name: name.to_owned(),
            folder,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let own = fstat(&self.handle);
        let current = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(own), Ok(current)) = (own, current)
            && (own.st_dev, own.st_ino) == (current.st_dev, current.st_ino)
        {
            // If the process sandbox refuses this, the broker removes the file.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn removes_only_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(SocketFile::open(&path).is_err());
        let _first = UnixListener::bind(&path).unwrap();
        drop(SocketFile::open(&path).unwrap());
        assert!(!path.exists());
        let _second = UnixListener::bind(&path).unwrap();
        let file = SocketFile::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _third = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
        // The socket's folder is moved, and replaced by a symlink to a folder with a hard link to
        // the same socket. Only the file in the moved folder is removed.
        let [folder, moved, other] = ["folder", "moved", "other"].map(|it| folder.path().join(it));
        for folder in [&folder, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        let _fourth = UnixListener::bind(folder.join("socket")).unwrap();
        let file = SocketFile::open(&folder.join("socket")).unwrap();
        std::fs::rename(&folder, &moved).unwrap();
        std::fs::hard_link(moved.join("socket"), other.join("socket")).unwrap();
        std::os::unix::fs::symlink(&other, &folder).unwrap();
        drop(file);
        assert!(other.join("socket").exists() && !moved.join("socket").exists());
    }
}
