//! The guard: checks what a path leads to before opening it, and opens only regular files and
//! folders of a skill. Opening a FIFO would block, opening a device may have side effects, and
//! another mount or a hard link may be somebody else's file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, Statx, StatxFlags,
};
use rustix::io::Errno;
use rustix::path::DecInt;

use crate::broker::Opener;
use crate::entries::{EntryCursor, ListedEntries};
use crate::omitted::{OmittedNames, in_current_generation};

/// The flags for a file of unknown kind: opening a FIFO must not wait for a writer, and a
/// terminal must not become the controlling terminal of this process.
pub const UNKNOWN_KIND: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// A folder, and the rules for everything below it.
#[derive(Debug, Clone)]
pub struct Folder {
    folder: Arc<Dir>,
    identity: FileIdentity,
    hard_links: HardLinks,
    /// The names that lists leave out. `None` for a list of all entries.
    omitted: Option<OmittedNames>,
    opener: Opener,
}

/// The rule for files with several hard links. One link may be outside of the folder, and
/// creating a link does not need the right to read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HardLinks {
    /// Files with several hard links are refused.
    #[default]
    Refused,
    /// Files with several hard links are opened like other files.
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

/// The file or folder at a path.
#[derive(Debug)]
pub enum PathTarget {
    /// A regular file.
    File(UnopenedFile),
    /// An open folder.
    Folder(Folder),
}

/// A regular file that was found and is not open for reading yet.
#[derive(Debug)]
pub struct UnopenedFile {
    handle: OwnedFd,
    opener: Opener,
    /// The size in bytes when the file was found.
    pub size: u64,
}

/// The identity of a file or folder. Includes the time of the last change, because file
/// systems reuse inode numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FileIdentity {
    mount: Mount,
    inode: u64,
    changed: (i64, u32),
}

/// The mount of a file. The id distinguishes bind mounts of one device, and is the same for
/// all files of an overlay, whose devices differ. Kernels before 5.8 have no id.
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
    /// Wraps the handle of a folder. Mounts below the folder are not part of it.
    pub fn new(handle: OwnedFd, hard_links: HardLinks, opener: Opener) -> Result<Self, Errno> {
        let identity = status_of(handle.as_fd())?.identity;
        Ok(Self {
            folder: Arc::new(Dir::from_std_file(handle.into())),
            identity,
            hard_links,
            omitted: None,
            opener,
        })
    }

    /// Returns the same folder with another rule for hard links.
    pub(crate) fn with_hard_links(&self, hard_links: HardLinks) -> Self {
        Self {
            hard_links,
            ..self.clone()
        }
    }

    /// Returns the same folder, whose lists leave out entries with these names at any depth. Paths
    /// with such names can still be opened.
    pub fn without(&self, names: &OmittedNames) -> Self {
        Self {
            omitted: Some(names.clone()),
            ..self.clone()
        }
    }

    /// Returns whether lists leave out the entry with this name.
    pub(crate) fn leaves_out(&self, name: &OsStr) -> bool {
        let names = self.omitted.as_ref();
        names.is_some_and(|names| names.has(self.folder.as_fd(), name))
    }

    /// Returns whether a name in the parent folder still leads to this folder, and the
    /// folder has not changed since it was opened.
    pub(crate) fn is_unchanged(&self, parent: BorrowedFd<'_>, name: &str, follow: bool) -> bool {
        let flags = if follow {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        rustix::fs::statx(parent, name, flags, STATX_FIELDS)
            .is_ok_and(|found| FileStatus::from(found).identity == self.identity)
    }

    /// Returns whether both folders are on the same mount.
    pub(crate) fn shares_mount(&self, other: &Self) -> bool {
        self.identity.mount == other.identity.mount
    }

    /// Returns the opener for the files in the folder.
    pub(crate) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Returns the folder's handle.
    pub fn handle(&self) -> &Dir {
        &self.folder
    }

    /// Starts listing the folder.
    pub fn entries(&self) -> io::Result<ListedEntries> {
        Ok(self.all_entries()?.without(self.omitted.clone()))
    }

    /// Starts listing the folder, including the entries that other lists leave out.
    pub(crate) fn all_entries(&self) -> io::Result<EntryCursor> {
        EntryCursor::open(self.folder.as_fd(), ".", &self.opener)
    }

    /// Returns an `O_PATH` handle to a path and its status. cap-std resolves the path in this
    /// folder, and fails with `EPERM` if a step or symlink leads out. Fails with `EXDEV` for a
    /// file on another mount.
    fn handle_at(&self, path: &Path, follow: bool) -> io::Result<(OwnedFd, FileStatus)> {
        let handle = match last_name(path) {
            Some((before, name)) if !follow => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let open =
                    |folder: BorrowedFd<'_>| rustix::fs::openat(folder, name, flags, Mode::empty());
                if before.is_empty() {
                    open(self.folder.as_fd())?
                } else {
                    open(self.resolve(Path::new(before))?.as_fd())?
                }
            }
            _ => self.resolve(path)?,
        };
        let status = status_of(handle.as_fd())?;
        if status.identity.mount == self.identity.mount {
            Ok((handle, status))
        } else {
            Err(Errno::XDEV.into())
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut options = OpenOptions::new();
        let flags = OFlags::PATH.bits().cast_signed();
        options.read(true).custom_flags(flags);
        let handle = self.folder.open_with(path, &options)?;
        Ok(handle.into_std().into())
    }

    /// Finds the file or folder at a path. Fails like `handle_at`, and with `ENOTSUP` for
    /// anything but a file or folder, `ELOOP` for a symlink that is not followed, and
    /// `EMLINK` for a file with several hard links.
    pub fn lookup(&self, path: &Path, follow: bool) -> io::Result<PathTarget> {
        in_current_generation(self.folder.as_fd(), || {
            let (handle, status) = self.handle_at(path, follow)?;
            self.admit(handle, status)
        })
    }

    /// Returns the file or folder that was found at a path, if the rules allow it.
    fn admit(&self, handle: OwnedFd, status: FileStatus) -> io::Result<PathTarget> {
        match status.kind {
            FileType::Directory => Ok(PathTarget::Folder(Self {
                folder: Arc::new(Dir::from_std_file(handle.into())),
                identity: status.identity,
                hard_links: self.hard_links,
                omitted: self.omitted.clone(),
                opener: self.opener.clone(),
            })),
            FileType::RegularFile if status.links > 1 && self.hard_links == HardLinks::Refused => {
                Err(Errno::MLINK.into())
            }
            FileType::RegularFile
                if self.hard_links == HardLinks::Refused
                    && status.is_recently_changed()
                    && !has_name(&handle) =>
            {
                Err(Errno::NOENT.into())
            }
            FileType::RegularFile => Ok(PathTarget::File(UnopenedFile {
                handle,
                opener: self.opener.clone(),
                size: status.size,
            })),
            FileType::Symlink => Err(Errno::LOOP.into()),
            _ => Err(Errno::NOTSUP.into()),
        }
    }

    /// Returns the status of the entry at a path, of any type.
    pub fn status_at(&self, path: &Path, follow: bool) -> io::Result<FileStatus> {
        let found = in_current_generation(self.folder.as_fd(), || self.handle_at(path, follow));
        Ok(found?.1)
    }

    /// Returns the current status of this folder.
    pub fn status(&self) -> io::Result<FileStatus> {
        Ok(status_of(self.folder.as_fd())?)
    }

    /// Returns the target of a symlink for a guest. Refuses an absolute target, which is a
    /// path of the host.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let target = self.link_target(path)?;
        if target.has_root() {
            Err(Errno::PERM.into())
        } else {
            Ok(target)
        }
    }

    /// Returns the target of a symlink. Guests must not see it.
    pub(crate) fn link_target(&self, path: &Path) -> io::Result<PathBuf> {
        let (link, status) = self.handle_at(path, false)?;
        if status.kind != FileType::Symlink {
            return Err(Errno::INVAL.into());
        }
        let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Returns the current canonical path of this folder.
    pub(crate) fn real_path(&self) -> io::Result<PathBuf> {
        host_path(self.folder.as_fd())
    }

    /// Returns the canonical path of an open file inside this folder. Returns `None` if the
    /// file was moved away or replaced.
    pub fn path_of(&self, file: &File) -> Option<PathBuf> {
        let (folder, real) = (self.real_path().ok()?, host_path(file.as_fd()).ok()?);
        let path = real.strip_prefix(folder).ok()?.to_owned();
        let (opened, named) = (
            FileStatus::of(file).ok()?,
            self.status_at(&path, false).ok()?,
        );
        opened.is_same_file(&named).then_some(path)
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, path: &Path) -> io::Result<File> {
        match self.lookup(path, true)? {
            PathTarget::File(file) => file.open(),
            PathTarget::Folder(_) => Err(Errno::ISDIR.into()),
        }
    }
}

/// Splits a path before its last name. Returns `None` if it ends in a slash, `.` or `..`,
/// and so names a folder.
fn last_name(path: &Path) -> Option<(&OsStr, &OsStr)> {
    let path = path.as_os_str().as_bytes();
    let start = path.iter().rposition(|byte| *byte == b'/');
    let (before, name) = path.split_at(start.map_or(0, |slash| slash + 1));
    match name {
        b"" | b"." | b".." => None,
        name => Some((OsStr::from_bytes(before), OsStr::from_bytes(name))),
    }
}

/// Opens the folder of this process's descriptors, `/proc/self/fd`. Guards against: another
/// file system or mount at this path.
fn descriptors() -> io::Result<BorrowedFd<'static>> {
    static DESCRIPTORS: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(folder) = DESCRIPTORS.get() {
        return Ok(folder.as_fd());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let proc = rustix::fs::openat(rustix::fs::CWD, "/proc", flags, Mode::empty())?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    let folder = match rustix::fs::openat2(&proc, "self/fd", flags, Mode::empty(), within) {
        // On a kernel before 5.6, or under a seccomp filter. `proc_self_fd` is slower: it lists all
        // processes.
        Err(Errno::NOSYS | Errno::PERM) => return Ok(rustix_linux_procfs::proc_self_fd()?),
        opened => opened?,
    };
    if rustix::fs::fstatfs(&folder)?.f_type != PROC_SUPER_MAGIC {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(DESCRIPTORS.get_or_init(|| folder).as_fd())
}

/// Returns the path of an open file on the host.
pub(crate) fn host_path(file: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let path = rustix::fs::readlinkat(descriptors()?, DecInt::from_fd(file), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

/// Returns whether the name under which a file was found still exists. Guards against: a hard
/// link to somebody else's file that is removed between its look-up and the count of its links,
/// so that only one link is counted.
///
/// Call it after the count: a removed name never returns to an open handle, so a name that
/// still exists was counted. The kernel adds ` (deleted)` to the path of a removed file. A file
/// whose real name ends in this is treated as removed too.
fn has_name(file: &OwnedFd) -> bool {
    let path = host_path(file.as_fd());
    path.is_ok_and(|path| !path.as_os_str().as_bytes().ends_with(b" (deleted)"))
}

/// Opens the file of an `O_PATH` handle, even if its path now leads to another file.
pub fn reopen(handle: BorrowedFd<'_>, access: OFlags) -> Result<OwnedFd, Errno> {
    let descriptors = descriptors();
    let descriptors =
        descriptors.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOTSUP))?;
    let flags = access | OFlags::CLOEXEC | UNKNOWN_KIND;
    rustix::fs::openat(descriptors, DecInt::from_fd(handle), flags, Mode::empty())
}

impl UnopenedFile {
    /// Opens the file for reading through its descriptor, even if its path now leads to another
    /// file.
    pub fn open(self) -> io::Result<File> {
        let opened = reopen(self.handle.as_fd(), OFlags::RDONLY);
        let opened = self.opener.or_ask_broker(opened, || Ok(self.handle))?;
        Ok(File::from(opened))
    }
}

/// The status of a directory entry of any type.
pub struct FileStatus {
    /// The type.
    pub kind: FileType,
    /// The number of hard links.
    pub links: u64,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last access, in seconds and nanoseconds.
    pub accessed: (i64, u32),
    /// The time of the last change of contents, in seconds and nanoseconds.
    pub modified: (i64, u32),
    identity: FileIdentity,
}

impl FileStatus {
    /// Returns the status of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(status_of(file.as_fd())?)
    }

    /// Returns the time of the last change of contents or status, in seconds and
    /// nanoseconds.
    pub fn changed(&self) -> (i64, u32) {
        self.identity.changed
    }

    /// Returns whether a link may have been added or removed since the file was found. Either
    /// would set the time of the last change, by a clock that may be a minute behind.
    fn is_recently_changed(&self) -> bool {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        self.changed().0 > now.tv_sec - 60
    }

    /// Returns whether both statuses are of the same file, even if it has changed.
    pub fn is_same_file(&self, other: &Self) -> bool {
        let (one, other) = (&self.identity, &other.identity);
        one.mount == other.mount && one.inode == other.inode
    }

    /// Returns the file's unique id on this machine. Guests must not see it.
    pub fn unique_id(&self) -> ((u32, u32), u64) {
        (self.identity.mount.device, self.identity.inode)
    }
}

/// The requested fields of `statx`.
const STATX_FIELDS: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::NLINK)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::INO)
    .union(StatxFlags::ATIME)
    .union(StatxFlags::MTIME)
    .union(StatxFlags::CTIME)
    .union(StatxFlags::MNT_ID);

impl From<Statx> for FileStatus {
    fn from(found: Statx) -> Self {
        Self {
            kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
            links: u64::from(found.stx_nlink),
            size: found.stx_size,
            accessed: (found.stx_atime.tv_sec, found.stx_atime.tv_nsec),
            modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
            identity: FileIdentity {
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

impl From<Stat> for FileStatus {
    fn from(found: Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(found.st_mode),
            links: found.st_nlink,
            size: found.st_size.cast_unsigned(),
            accessed: (found.st_atime, nanoseconds(found.st_atime_nsec)),
            modified: (found.st_mtime, nanoseconds(found.st_mtime_nsec)),
            identity: FileIdentity {
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
        }
    }
}

fn status_of(handle: BorrowedFd<'_>) -> Result<FileStatus, Errno> {
    match rustix::fs::statx(handle, "", AtFlags::EMPTY_PATH, STATX_FIELDS) {
        Ok(found) => Ok(found.into()),
        // Some sandboxes forbid `statx`.
        Err(Errno::NOSYS | Errno::PERM) => Ok(rustix::fs::fstat(handle)?.into()),
        Err(error) => Err(error),
    }
}

/// Converts the nanoseconds of a time. Their type in `fstat` differs between targets.
fn nanoseconds(count: impl TryInto<u32>) -> u32 {
    count.try_into().unwrap_or_default()
}

/// Checks that `/proc` is mounted: [`UnopenedFile::open`] needs it.
pub fn check_machine() -> anyhow::Result<()> {
    descriptors().context("`/proc` is not mounted; skillhost needs it to open files safely")?;
    Ok(())
}

#[cfg(test)]
mod tests;
