//! The entries of a skill's folder that are left out of lists: version control, installed packages,
//! caches, and the earlier versions of files in a Kubernetes volume (see `Volume`). A call can
//! still read them by their exact path.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

/// The names that are left out by default, sorted.
pub const DEFAULT_NAMES: [&str; 23] = [
    ".DS_Store",
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".jj",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "Thumbs.db",
    "__MACOSX",
    "__pycache__",
    "bower_components",
    "desktop.ini",
    "env",
    "node_modules",
    "venv",
];

/// The names that ordinary folders of a skill may also have. Lists leave out a folder with such a
/// name only if it is a Python environment, which has [`ENVIRONMENT_FILE`].
const ENVIRONMENTS: [&str; 2] = ["env", "venv"];

/// The file that every Python environment has.
const ENVIRONMENT_FILE: &str = "pyvenv.cfg";

/// The symlink to the current generation of a Kubernetes volume; see [`Volume`].
const CURRENT_GENERATION: &str = "..data";

/// The start of each generation's name, with `0` in place of any digit.
const GENERATION_FORM: &[u8] = b"..0000_00_00_00_00_00.";

/// The maximum length of a chain of symlinks in a folder. Guards against: a cycle of symlinks.
const MAX_LINKS: usize = 8;

/// The maximum number of retries of a look-up in a volume. Guards against: a volume that is
/// replaced faster than a path is looked up.
const MAX_RETRIES: usize = 100;

/// The names that lists of a skill's files leave out. Clones are cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedNames(Arc<BTreeSet<String>>);

impl Default for OmittedNames {
    fn default() -> Self {
        Self(Arc::new(DEFAULT_NAMES.map(str::to_owned).into()))
    }
}

impl OmittedNames {
    /// Creates a set of names that replaces the default set. Fails with the first name that no
    /// entry of a folder can have.
    pub fn new(names: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let names: BTreeSet<String> = names.into_iter().collect();
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => Err(name.clone()),
            None => Ok(Self(Arc::new(names))),
        }
    }

    /// Returns whether lists of a folder leave out the entry with this name. They also leave out a
    /// symlink if the path of its target contains an omitted name.
    pub fn has(&self, folder: BorrowedFd<'_>, name: &OsStr) -> bool {
        let mut path = PathBuf::from(name);
        for _ in 0..MAX_LINKS {
            if self.has_in(folder, &path) {
                return true;
            }
            let is_in_folder = path.components().count() == 1;
            match target(folder, path.as_os_str()).filter(|_| is_in_folder) {
                Some(target) => path = target,
                None => break,
            }
        }
        false
    }

    /// Returns whether a path contains a name that is left out.
    fn has_in(&self, folder: BorrowedFd<'_>, path: &Path) -> bool {
        let mut prefix = PathBuf::new();
        path.components().any(|part| {
            prefix.push(part);
            let Component::Normal(name) = part else {
                return false;
            };
            let name = name.to_str().filter(|name| self.0.contains(*name));
            name.is_some_and(|name| {
                !ENVIRONMENTS.contains(&name) || is_environment(folder, &prefix)
            })
        })
    }
}

/// Returns whether a folder is a Python environment. Follows no symlink and ignores other mounts,
/// so never looks outside `parent`.
fn is_environment(parent: BorrowedFd<'_>, folder: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Do not wait for the server of a network file system.
    let status = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let mount = |folder: BorrowedFd<'_>| {
        let found = rustix::fs::statx(folder, "", status, StatxFlags::MNT_ID);
        found.map(|found| (found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor))
    };
    let own = mount(parent);
    let open = |parent: OwnedFd, part: Component<'_>| match part {
        Component::Normal(name) => rustix::fs::openat(parent, name, flags, Mode::empty())
            .ok()
            .filter(|opened| mount(opened.as_fd()) == own),
        _ => None,
    };
    let start = parent.try_clone_to_owned().ok();
    let opened = start.and_then(|start| folder.components().try_fold(start, open));
    opened.is_some_and(|opened| {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statx(&opened, ENVIRONMENT_FILE, flags, StatxFlags::TYPE).is_ok()
    })
}

/// Returns the target of a symlink.
fn target(folder: BorrowedFd<'_>, name: &OsStr) -> Option<PathBuf> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
    Some(OsString::from_vec(target.into_bytes()).into())
}

/// A Kubernetes volume, such as a mounted ConfigMap.
///
/// Its files are in a folder such as `..2026_01_31_12_00_00.123456789`, a generation. `..data` is a
/// symlink to the current generation, and each entry `NAME` is a symlink to `..data/NAME`. An
/// update makes another generation, and replaces `..data`.
#[derive(Debug)]
pub(crate) struct Volume {
    /// The name of the current generation.
    current: Vec<u8>,
}

impl Volume {
    /// Returns the volume at a folder. Returns `None` if the folder is not a volume.
    pub(crate) fn of(folder: BorrowedFd<'_>) -> Option<Self> {
        generation(folder).map(|current| Self { current })
    }

    /// Returns whether an entry is the current generation.
    pub(crate) fn is_current(&self, name: &OsStr) -> bool {
        name.as_bytes() == self.current
    }

    /// Returns whether lists show the entry's files at another path. This holds for a generation,
    /// and for a symlink into one, except the symlink `NAME` to `..data/NAME`.
    pub(crate) fn is_listed_elsewhere(&self, folder: BorrowedFd<'_>, name: &OsStr) -> bool {
        if self.is_current(name) || is_generation(name) {
            return true;
        }
        let is_inside = |part: Component<'_>| {
            let part = part.as_os_str();
            part == CURRENT_GENERATION || self.is_current(part) || is_generation(part)
        };
        target(folder, name).is_some_and(|target| target.components().any(is_inside))
            && !is_volume_link(folder, name)
    }
}

/// Returns whether a name looks like that of a generation.
fn is_generation(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let is_alike = |(form, byte): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == form,
    };
    let (start, end) = name.split_at(GENERATION_FORM.len().min(name.len()));
    start.len() == GENERATION_FORM.len()
        && GENERATION_FORM.iter().zip(start).all(is_alike)
        && end.iter().all(u8::is_ascii_digit)
}

/// Returns whether an entry of a Kubernetes volume is the symlink `NAME` to `..data/NAME`.
pub(crate) fn is_volume_link(folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let target = rustix::fs::readlinkat(folder, name, Vec::new());
    target.is_ok_and(|target| {
        let inside = target
            .to_bytes()
            .strip_prefix(CURRENT_GENERATION.as_bytes());
        inside.and_then(|inside| inside.strip_prefix(b"/")) == Some(name.as_bytes())
    })
}

/// Returns the name of the folder with the current generation of a Kubernetes volume.
pub(crate) fn generation(folder: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let target = rustix::fs::readlinkat(folder, CURRENT_GENERATION, Vec::new()).ok()?;
    let name = target.to_bytes();
    let is_name = name.len() > 2 && name.starts_with(b"..") && !name.contains(&b'/');
    is_name.then(|| name.to_owned())
}

/// Looks something up in a folder. Tries again if it is missing because Kubernetes has just
/// replaced and removed the old generation of the volume.
pub(crate) fn in_current_generation<T>(
    folder: BorrowedFd<'_>,
    look_up: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    let is_missing = |found: &io::Result<T>| {
        let error = found.as_ref().err();
        error.is_some_and(|error| error.raw_os_error() == Some(Errno::NOENT.raw_os_error()))
    };
    let mut found = look_up();
    if is_missing(&found)
        && let Some(mut current) = generation(folder)
    {
        for _ in 0..MAX_RETRIES {
            found = look_up();
            let Some(next) = generation(folder).filter(|_| is_missing(&found)) else {
                break;
            };
            if next == current {
                break;
            }
            current = next;
        }
    }
    found
}
