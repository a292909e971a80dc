//! The file of a Unix socket, and its removal once nobody listens on it any more.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, open, statat, unlink};

/// The file of a socket. While it is held, no other file has its number. It is removed when
/// this is dropped, unless another one has its path by then.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    handle: OwnedFd,
}

impl SocketFile {
    /// Returns the file at a path.
    ///
    /// # Errors
    ///
    /// If there is none, or the system refuses.
    pub fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            handle: open(path, flags, Mode::empty())?,
            path: path.to_owned(),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let own = fstat(&self.handle);
        let there = statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(own), Ok(there)) = (own, there)
            && (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)
        {
            // A process whose wall refuses this has a broker that does it.
            let _ = unlink(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn removes_its_own_file_and_no_other_that_came_into_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(SocketFile::at(&path).is_err());
        let _first = UnixListener::bind(&path).unwrap();
        drop(SocketFile::at(&path).unwrap());
        assert!(!path.exists());
        let _second = UnixListener::bind(&path).unwrap();
        let file = SocketFile::at(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _third = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(path.exists());
    }
}
