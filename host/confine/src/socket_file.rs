//! The file of a Unix socket, and its removal once nobody listens on it any more.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, open, openat, statat, unlinkat};

/// The file of a socket. While it is held, no other file has its number. It is removed when
/// this is dropped, unless another one has its name in its folder by then.
#[derive(Debug)]
pub struct SocketFile {
    folder: OwnedFd,
    name: OsString,
    handle: OwnedFd,
}

impl SocketFile {
    /// Returns the file at a path.
    ///
    /// # Errors
    ///
    /// If there is none, or the system refuses.
    pub fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = Path::new(".").join(path.parent().unwrap_or(Path::new("")));
        let folder = open(folder, flags | OFlags::DIRECTORY, Mode::empty())?;
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
        let there = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(own), Ok(there)) = (own, there)
            && (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)
        {
            // A process whose wall refuses this has a broker that does it.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
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
        // Another folder came into the place of its own.
        let [folder, moved, other] = ["folder", "moved", "other"].map(|it| folder.path().join(it));
        for folder in [&folder, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        let _fourth = UnixListener::bind(folder.join("socket")).unwrap();
        let file = SocketFile::at(&folder.join("socket")).unwrap();
        std::fs::rename(&folder, &moved).unwrap();
        std::fs::hard_link(moved.join("socket"), other.join("socket")).unwrap();
        std::os::unix::fs::symlink(&other, &folder).unwrap();
        drop(file);
        assert!(other.join("socket").exists() && !moved.join("socket").exists());
    }
}
