//! Binds Unix sockets. Replaces a socket that nobody listens on, and no other file. The gate
//! decides which users may send requests.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use skillhost::Trust;

/// The maximum number of attempts to lock the folder. Guards against: a process that never releases
/// its lock.
const LOCK_ATTEMPTS: usize = 50;

/// The pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Listens on a Unix socket, and gives its file this mode. Fails if a user outside `trust` could
/// replace the file, because the path is used again: to set the mode, and to remove the file when
/// the server ends.
pub(crate) fn bind(
    path: &Path,
    mode: u32,
    backlog: i32,
    trust: &Trust,
) -> anyhow::Result<UnixListener> {
    let mode = Mode::from_raw_mode(mode);
    let address = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => anyhow::anyhow!("the path is longer than 107 bytes"),
        error => error.into(),
    })?;
    let lock = lock_folder(path)?;
    trust.check_parent(path)?;
    if lock.is_some() {
        remove_stale(path, &address)?;
    }
    let socket = socket()?;
    // Sets the mode before the socket is bound, so that its file never lets more users in.
    rustix::fs::fchmod(&socket, mode)?;
    let bound = rustix::net::bind(&socket, &address);
    bound.with_context(|| match lock {
        Some(_) => "cannot bind the socket",
        None => "cannot replace the socket: another process has locked its folder",
    })?;
    set_mode(path, mode).context("cannot set the mode of the socket")?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket.into())
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    Ok(socket?)
}

/// Sets the mode of a socket's file, because the process's umask may have removed some of its bits.
/// Guards against: a symlink in place of the socket.
fn set_mode(path: &Path, mode: Mode) -> anyhow::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = rustix::fs::open(path, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&socket)?;
    ensure!(
        FileType::from_raw_mode(status.st_mode) == FileType::Socket,
        "another file is at the path of the socket"
    );
    if Mode::from_raw_mode(status.st_mode) != mode {
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?;
    }
    Ok(())
}

/// Locks a socket's folder until the returned lock is dropped. Guards against: a server that
/// removes the socket of another that starts at the same time. Returns `None` if another process
/// keeps the folder locked, which needs only the right to read the folder.
fn lock_folder(path: &Path) -> anyhow::Result<Option<OwnedFd>> {
    // A path without a folder has an empty parent.
    let folder = Path::new(".").join(path.parent().unwrap_or(Path::new("")));
    let open_and_lock = || -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&folder, flags, Mode::empty())?;
        for _ in 0..LOCK_ATTEMPTS {
            match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => sleep(LOCK_PAUSE),
                locked => return locked.map(|()| Some(folder)).map_err(io::Error::from),
            }
        }
        Ok(None)
    };
    open_and_lock().with_context(|| format!("cannot use the folder `{}`", folder.display()))
}

/// Removes the socket at a path if nobody listens on it.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> anyhow::Result<()> {
    let status = match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        status => status?,
    };
    ensure!(
        FileType::from_raw_mode(status.st_mode) == FileType::Socket,
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
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::thread;

    use skillhost::Principal;

    use super::*;

    fn bind(path: &Path, mode: u32, backlog: i32) -> anyhow::Result<UnixListener> {
        super::bind(path, mode, backlog, &Trust::new())
    }

    fn refusal(path: &Path) -> String {
        format!("{:#}", bind(path, 0o600, 8).unwrap_err())
    }

    #[test]
    fn refuses_folder_where_others_can_replace_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for (mode, is_safe) in [(0o757, false), (0o1757, true), (0o755, true)] {
            std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let bound = bind(&path, 0o600, 8);
            assert_eq!(bound.is_ok(), is_safe, "{mode:o}: {bound:?}");
            assert_eq!(path.exists(), is_safe, "{mode:o}");
            if !is_safe {
                assert!(refusal(&path).contains("every user can change"));
                let everyone = Trust::new().and(Principal::Everyone);
                super::bind(&path, 0o600, 8, &everyone).unwrap();
                std::fs::remove_file(&path).unwrap();
            }
        }
    }

    #[test]
    fn replaces_stale_socket_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for mode in [0o600, 0o660, 0o666] {
            let first = bind(&path, mode, 8).unwrap();
            let bound = path.metadata().unwrap();
            assert_eq!(bound.permissions().mode() & 0o7777, mode, "{mode:o}");
            UnixStream::connect(&path).unwrap();
            assert!(refusal(&path).contains("another process listens there"));
            assert_eq!(path.metadata().unwrap().ino(), bound.ino());
            // The file stays, and nobody listens.
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
            let created = match name {
                "file" => std::fs::write(&path, "kept").map(|()| None),
                "folder" => std::fs::create_dir(&path).map(|()| None),
                "link" => std::os::unix::fs::symlink("socket", &path).map(|()| None),
                "datagrams" => UnixDatagram::bind(&path).map(Some),
                _ => Ok(None),
            };
            let datagrams = created.unwrap();
            let refusal = refusal(&path);
            assert!(refusal.contains(reason), "{name}: {refusal}");
            let is_there = name.len() < 20 && !name.contains('/');
            assert_eq!(path.symlink_metadata().is_ok(), is_there, "{name}");
            drop(datagrams);
        }
    }

    #[test]
    fn never_changes_the_mode_behind_a_symlink() {
        let folder = tempfile::tempdir().unwrap();
        let (key, link) = (folder.path().join("key"), folder.path().join("link"));
        std::fs::write(&key, "secret").unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("key", &link).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        for path in [&link, &key] {
            let error = set_mode(path, Mode::from_raw_mode(0o666)).unwrap_err();
            assert!(error.to_string().contains("another file"), "{error}");
            assert_eq!(mode(&key), 0o600);
        }
        let socket = folder.path().join("socket");
        let _listening = UnixListener::bind(&socket).unwrap();
        for bits in [0o600, 0o666] {
            set_mode(&socket, Mode::from_raw_mode(bits)).unwrap();
            assert_eq!(mode(&socket), bits);
        }
    }

    #[test]
    fn binds_free_path_in_locked_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let lock = std::fs::File::open(folder.path()).unwrap();
        lock.lock().unwrap();
        drop(bind(&path, 0o600, 8).unwrap());
        let refusal = refusal(&path);
        assert!(refusal.contains("has locked its folder"), "{refusal}");
        drop(lock);
        bind(&path, 0o600, 8).unwrap();
    }

    #[test]
    fn does_not_replace_busy_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listening = bind(&path, 0o600, 1).unwrap();
        let inode = path.metadata().unwrap().ino();
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
        assert_eq!(path.metadata().unwrap().ino(), inode);
    }

    #[test]
    fn one_of_several_starting_servers_listens() {
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
