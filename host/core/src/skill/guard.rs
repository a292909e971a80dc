//! The guard at open: what lies at a path is looked at before it is opened,
//! and only what a skill may hold is. A FIFO would block for ever, a device may
//! act on being opened, another mount or a hard link may be a file of someone
//! else's.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::path::DecInt;

/// A folder, and what holds for everything below it.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    folder: Arc<Dir>,
    identity: Identity,
    hard_links: HardLinks,
}

/// Whether files that have other names may be read. One of those names may
/// lie outside: whoever could make the link need not be able to read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HardLinks {
    #[default]
    Refused,
    Allowed,
}

impl From<bool> for HardLinks {
    fn from(allowed: bool) -> Self {
        if allowed {
            Self::Allowed
        } else {
            Self::Refused
        }
    }
}

/// What was found at a path.
#[derive(Debug)]
pub(crate) enum Found {
    File(Seen),
    Folder(Folder),
}

/// A regular file that was looked at, and is not open for reading yet.
#[derive(Debug)]
pub(crate) struct Seen {
    handle: OwnedFd,
    /// Its bytes, when it was looked at.
    pub(crate) size: u64,
}

/// Which file or folder something is, as of its last change: a server may give
/// the number of one that is gone to another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Identity {
    mount: Mount,
    inode: u64,
    changed: (i64, u32),
}

/// Which mount something lies on. The id tells bind mounts of one device
/// apart, and the files of an overlay, which have devices of their own,
/// together. A kernel before 5.8 has none.
#[derive(Debug, Clone, Copy)]
struct Mount {
    device: (u32, u32),
    id: Option<u64>,
}

impl PartialEq for Mount {
    fn eq(&self, other: &Self) -> bool {
        match (self.id, other.id) {
            (Some(one), Some(other)) => one == other,
            _ => self.device == other.device,
        }
    }
}

impl Folder {
    /// The folder of this handle. What is mounted below it is not part of it.
    pub(crate) fn new(handle: OwnedFd, hard_links: HardLinks) -> Result<Self, Errno> {
        let identity = facts(handle.as_fd())?.identity;
        Ok(Self {
            folder: Arc::new(Dir::from_std_file(handle.into())),
            identity,
            hard_links,
        })
    }

    /// The same folder, for someone who may or may not read hard links.
    pub(crate) fn with(&self, hard_links: HardLinks) -> Self {
        Self {
            hard_links,
            ..self.clone()
        }
    }

    /// Whether a name in another folder still leads to this one, and nothing
    /// was changed in it since it was opened.
    pub(crate) fn is_still(&self, parent: &Self, name: &str, follow: bool) -> bool {
        let flags = match follow {
            true => AtFlags::empty(),
            false => AtFlags::SYMLINK_NOFOLLOW,
        };
        rustix::fs::statx(&*parent.folder, name, flags, WANTED)
            .is_ok_and(|found| Facts::from(found).identity == self.identity)
    }

    /// Whether the same mount holds both.
    pub(crate) fn shares_mount(&self, other: &Self) -> bool {
        self.identity.mount == other.identity.mount
    }

    /// The folder's handle, for what opens nothing: looking and listing.
    pub(crate) fn handle(&self) -> &Dir {
        &self.folder
    }

    /// Sees what a path names, without opening it. The path is resolved in this
    /// folder by cap-std, which lets no step of it, and no symlink, lead outside:
    /// that is `EPERM`. What lies on another mount is `EXDEV`.
    fn see(&self, path: &Path, follow: bool) -> io::Result<(OwnedFd, Facts)> {
        let seen = match last_name(path) {
            Some((before, name)) if !follow => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let open =
                    |folder: BorrowedFd<'_>| rustix::fs::openat(folder, name, flags, Mode::empty());
                match before.is_empty() {
                    true => open(self.folder.as_fd())?,
                    false => open(self.resolve(Path::new(before))?.as_fd())?,
                }
            }
            _ => self.resolve(path)?,
        };
        let facts = facts(seen.as_fd())?;
        match facts.identity.mount == self.identity.mount {
            true => Ok((seen, facts)),
            false => Err(Errno::XDEV.into()),
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut options = OpenOptions::new();
        let flags = OFlags::PATH.bits().cast_signed();
        options.read(true).custom_flags(flags);
        let seen = self.folder.open_with(path, &options)?;
        Ok(seen.into_std().into())
    }

    /// Looks at what a path names, so that it can be opened. What is refused,
    /// beside what is not [seen](Self::see), has an error of its own: neither
    /// file nor directory `ENOTSUP`, a symlink that is not followed `ELOOP`, a
    /// file with several hard links `EMLINK`.
    pub(crate) fn look(&self, path: &Path, follow: bool) -> io::Result<Found> {
        let (seen, facts) = self.see(path, follow)?;
        match facts.kind {
            FileType::Directory => Ok(Found::Folder(Self {
                folder: Arc::new(Dir::from_std_file(seen.into())),
                identity: facts.identity,
                hard_links: self.hard_links,
            })),
            FileType::RegularFile if facts.links > 1 && self.hard_links == HardLinks::Refused => {
                Err(Errno::MLINK.into())
            }
            FileType::RegularFile => Ok(Found::File(Seen {
                handle: seen,
                size: facts.size,
            })),
            FileType::Symlink => Err(Errno::LOOP.into()),
            _ => Err(Errno::NOTSUP.into()),
        }
    }

    /// The facts of what a path names, of whatever kind it is.
    pub(crate) fn facts_at(&self, path: &Path, follow: bool) -> io::Result<Facts> {
        Ok(self.see(path, follow)?.1)
    }

    /// The facts of this folder, as it is now.
    pub(crate) fn facts(&self) -> io::Result<Facts> {
        Ok(facts(self.folder.as_fd())?)
    }

    /// Where a symlink leads, unless that is an absolute path: it is the host's.
    pub(crate) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let (seen, facts) = self.see(path, false)?;
        if facts.kind != FileType::Symlink {
            return Err(Errno::INVAL.into());
        }
        let target = rustix::fs::readlinkat(&seen, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        match target.has_root() {
            true => Err(Errno::PERM.into()),
            false => Ok(target),
        }
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        match self.look(path, true)? {
            Found::File(seen) => seen.open(),
            Found::Folder(_) => Err(Errno::ISDIR.into()),
        }
    }
}

/// A path's last name, and what stands before it, if it ends in a name. One that
/// ends in a slash or in dots names a folder, whatever leads to it.
fn last_name(path: &Path) -> Option<(&OsStr, &OsStr)> {
    let path = path.as_os_str().as_bytes();
    let start = path.iter().rposition(|byte| *byte == b'/');
    let (before, name) = path.split_at(start.map_or(0, |slash| slash + 1));
    match name {
        b"" | b"." | b".." => None,
        name => Some((OsStr::from_bytes(before), OsStr::from_bytes(name))),
    }
}

impl Seen {
    /// Opens the very file that was looked at, for reading. Going through its
    /// descriptor and not through its path leaves no moment to put another in
    /// its place.
    pub(crate) fn open(self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let opened = rustix::fs::openat(
            rustix_linux_procfs::proc_self_fd()?,
            DecInt::from_fd(self.handle.as_fd()),
            flags,
            Mode::empty(),
        )?;
        Ok(File::from(opened))
    }
}

/// What is known of a file or folder, of whatever kind.
pub(crate) struct Facts {
    pub(crate) kind: FileType,
    pub(crate) links: u64,
    pub(crate) size: u64,
    /// Seconds and nanoseconds, as those of [`Facts::changed`].
    pub(crate) accessed: (i64, u32),
    pub(crate) modified: (i64, u32),
    identity: Identity,
}

impl Facts {
    /// The facts of an open file.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(facts(file.as_fd())?)
    }

    /// When it was changed last, its facts included.
    pub(crate) fn changed(&self) -> (i64, u32) {
        self.identity.changed
    }

    /// Whether both are the same file, though it may have changed between.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        let (one, other) = (&self.identity, &other.identity);
        one.mount == other.mount && one.inode == other.inode
    }

    /// What tells it from every other file of the machine. It is nothing for a
    /// guest.
    pub(crate) fn numbers(&self) -> impl Hash {
        (self.identity.mount.device, self.identity.inode)
    }
}

/// What is asked of the kernel.
const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::NLINK)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::INO)
    .union(StatxFlags::ATIME)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::CTIME)
    .union(StatxFlags::MNT_ID);

impl From<Statx> for Facts {
    fn from(found: Statx) -> Self {
        Self {
            kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
            links: u64::from(found.stx_nlink),
            size: found.stx_size,
            accessed: (found.stx_atime.tv_sec, found.stx_atime.tv_nsec),
            modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
            identity: Identity {
                mount: Mount {
                    device: (found.stx_dev_major, found.stx_dev_minor),
                    id: StatxFlags::from_bits_retain(found.stx_mask)
                        .contains(StatxFlags::MNT_ID)
                        .then_some(found.stx_mnt_id),
                },
                inode: found.stx_ino,
                changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
            },
        }
    }
}

fn facts(seen: BorrowedFd<'_>) -> Result<Facts, Errno> {
    match rustix::fs::statx(seen, "", AtFlags::EMPTY_PATH, WANTED) {
        Ok(found) => Ok(found.into()),
        // Sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let found = rustix::fs::fstat(seen)?;
            Ok(Facts {
                kind: FileType::from_raw_mode(found.st_mode),
                links: found.st_nlink,
                size: found.st_size.cast_unsigned(),
                accessed: (found.st_atime, nanoseconds(found.st_atime_nsec)),
                modified: (found.st_mtime, nanoseconds(found.st_mtime_nsec)),
                identity: Identity {
                    mount: Mount {
                        device: (
                            rustix::fs::major(found.st_dev),
                            rustix::fs::minor(found.st_dev),
                        ),
                        id: None,
                    },
                    inode: found.st_ino,
                    changed: (found.st_ctime, nanoseconds(found.st_ctime_nsec)),
                },
            })
        }
        Err(error) => Err(error),
    }
}

/// Nanoseconds of a time, of the many types that `fstat` has for them.
fn nanoseconds(of: impl TryInto<u32>) -> u32 {
    of.try_into().unwrap_or_default()
}

/// Whether this machine has what the guard needs: `/proc`, to open what was
/// looked at.
pub(crate) fn check_machine() -> anyhow::Result<()> {
    rustix_linux_procfs::proc_self_fd()
        .context("`/proc` is not mounted; skillhost needs it to open files safely")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;
    use std::time::{Duration, Instant};

    fn folder(path: &Path, hard_links: HardLinks) -> Folder {
        let folder = Dir::open_ambient_dir(path, ambient_authority()).unwrap();
        Folder::new(folder.into_std_file().into(), hard_links).unwrap()
    }

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
        std::fs::write(path.join("linked"), "x").unwrap();
        std::fs::hard_link(path.join("linked"), path.join("other")).unwrap();
        let guarded = folder(path, HardLinks::Refused);

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
            ("linked", Some(Errno::MLINK)),
            ("none", Some(Errno::NOENT)),
            ("file/x", Some(Errno::NOTDIR)),
        ] {
            let error = guarded
                .open_file(Path::new(name))
                .err()
                .map(|error| Errno::from_io_error(&error));
            // cap-std's own refusals carry no errno; they are "permission denied".
            let error = error.map(|errno| errno.unwrap_or(Errno::PERM));
            assert_eq!(error, expected, "{name}");
        }
        assert!(start.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn hard_links_are_read_where_they_are_allowed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), "x").unwrap();
        std::fs::hard_link(root.path().join("a"), root.path().join("b")).unwrap();
        let allowed = folder(root.path(), HardLinks::Allowed);
        assert!(allowed.open_file(Path::new("a")).is_ok());
    }

    #[test]
    fn what_is_mounted_inside_a_folder_is_refused() {
        // A mount that every Linux has.
        let root = folder(Path::new("/"), HardLinks::Refused);
        for path in ["proc/version", "proc"] {
            let error = root.look(Path::new(path), true).unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(Errno::XDEV), "{path}");
        }
    }
}
