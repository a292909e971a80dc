//! Binding a Unix socket: in the place of one that nobody listens on any more, and of
//! nothing else. Not here: who may ask there, which the gate decides by the user.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The looks at whether another process binds in the folder, and the pause between two.
/// Guards against: two servers that start at once, one of which removes the other's socket.
const LOOKS: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Listens on a socket whose file has this mode.
pub(super) fn bind(path: &Path, mode: u32, backlog: i32) -> anyhow::Result<UnixListener> {
    let mode = Mode::from_raw_mode(mode);
    let address = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => anyhow::anyhow!("the path is longer than 107 bytes"),
        error => error.into(),
    })?;
    let _turn = lock_folder(path)?;
    remove_stale(path, &address)?;
    let socket = socket()?;
    // So it never has another mode that lets more users in.
    rustix::fs::fchmod(&socket, mode)?;
    rustix::net::bind(&socket, &address)?;
    let made = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if Mode::from_raw_mode(made.st_mode) != mode {
        // The process's own mask took bits away.
        rustix::fs::chmodat(CWD, path, mode, AtFlags::empty()).context("cannot set its mode")?;
    }
    rustix::net::listen(&socket, backlog)?;
    Ok(socket.into())
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    Ok(socket?)
}

/// Keeps others out of the folder who bind as this does, until it is dropped.
fn lock_folder(path: &Path) -> anyhow::Result<OwnedFd> {
    // A name alone has an empty parent.
    let folder = Path::new(".").join(path.parent().unwrap_or(Path::new("")));
    let open = || -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&folder, flags, Mode::empty())?;
        for _ in 0..LOOKS {
            match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => sleep(PAUSE),
                locked => return locked.map(|()| folder).map_err(io::Error::from),
            }
        }
        Err(io::Error::other("another process has locked it"))
    };
    open().with_context(|| format!("cannot use the folder `{}`", folder.display()))
}

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> anyhow::Result<()> {
    let found = match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found?,
    };
    ensure!(
        FileType::from_raw_mode(found.st_mode) == FileType::Socket,
        "there is a file that is not a socket; remove it, or name another path"
    );
    match rustix::net::connect(socket()?, address) {
        Err(Errno::CONNREFUSED) => {}
        Ok(()) | Err(Errno::AGAIN) => bail!("another process listens there"),
        Err(error) => {
            return Err(error).context("cannot tell whether another process listens there");
        }
    }
    rustix::fs::unlink(path).context("cannot remove the socket that nobody listens on")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::thread;

    use super::*;

    fn refusal(path: &Path) -> String {
        format!("{:#}", bind(path, 0o600, 8).unwrap_err())
    }

    #[test]
    fn replaces_a_socket_that_nobody_listens_on_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for mode in [0o600, 0o660, 0o666] {
            let first = bind(&path, mode, 8).unwrap();
            let made = path.metadata().unwrap();
            assert_eq!(made.permissions().mode() & 0o7777, mode, "{mode:o}");
            UnixStream::connect(&path).unwrap();
            assert!(refusal(&path).contains("another process listens there"));
            assert_eq!(path.metadata().unwrap().ino(), made.ino());
            // Its file stays, and nobody listens.
            drop(first);
        }
        for (name, reason) in [
            ("file", "there is a file that is not a socket"),
            ("folder", "there is a file that is not a socket"),
            ("link", "there is a file that is not a socket"),
            (
                "datagrams",
                "cannot tell whether another process listens there",
            ),
            ("none/socket", "cannot use the folder"),
            ("file/socket", "cannot use the folder"),
            (&"x".repeat(108), "longer than 107 bytes"),
        ] {
            let path = folder.path().join(name);
            let other = match name {
                "file" => std::fs::write(&path, "kept").map(|()| None),
                "folder" => std::fs::create_dir(&path).map(|()| None),
                "link" => std::os::unix::fs::symlink("socket", &path).map(|()| None),
                "datagrams" => UnixDatagram::bind(&path).map(Some),
                _ => Ok(None),
            };
            let other = other.unwrap();
            let refusal = refusal(&path);
            assert!(refusal.contains(reason), "{name}: {refusal}");
            let is_there = name.len() < 20 && !name.contains('/');
            assert_eq!(path.symlink_metadata().is_ok(), is_there, "{name}");
            drop(other);
        }
    }

    #[test]
    fn a_socket_that_takes_no_connection_for_now_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listening = bind(&path, 0o600, 1).unwrap();
        let made = path.metadata().unwrap().ino();
        let address = SocketAddrUnix::new(&path).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            let socket = socket().unwrap();
            match rustix::net::connect(&socket, &address) {
                Ok(()) if waiting.len() < 100 => waiting.push(socket),
                connected => break connected,
            }
        };
        assert_eq!(full, Err(Errno::AGAIN));
        assert!(refusal(&path).contains("another process listens there"));
        assert_eq!(path.metadata().unwrap().ino(), made);
    }

    #[test]
    fn of_servers_that_start_at_once_one_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for _ in 0..20 {
            let starting = [(); 4].map(|()| {
                let path = path.clone();
                thread::spawn(move || bind(&path, 0o600, 8).ok())
            });
            let started = starting.map(|start| start.join().unwrap());
            assert_eq!(started.iter().flatten().count(), 1);
            UnixStream::connect(&path).unwrap();
        }
    }
}
