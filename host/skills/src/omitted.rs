//! The entries of a skill's folder that lists leave out: version control, installed packages,
//! caches, and the generations of a Kubernetes volume. A call can still read them by their exact
//! path.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, StatxFlags};
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

/// The names that may also stand for a skill's own folder. They are left out only if they are a
/// Python environment, which has [`ENVIRONMENT_FILE`].
const ENVIRONMENTS: [&str; 2] = ["env", "venv"];

/// The file that every Python environment has.
const ENVIRONMENT_FILE: &str = "pyvenv.cfg";

/// The symlink to the current generation of a Kubernetes volume.
const CURRENT_GENERATION: &str = "..data";

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
    /// Creates a set of names in place of the default one. Returns the first name that no entry
    /// of a folder can have.
    pub fn new(names: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let names: BTreeSet<String> = names.into_iter().collect();
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => Err(name.clone()),
            None => Ok(Self(Arc::new(names))),
        }
    }

    /// Returns whether lists of a folder leave out the entry of this name.
    pub(crate) fn has(&self, folder: BorrowedFd<'_>, name: &OsStr) -> bool {
        let name = name.to_str().filter(|name| self.0.contains(*name));
        name.is_some_and(|name| !ENVIRONMENTS.contains(&name) || is_environment(folder, name))
    }
}

fn is_environment(parent: BorrowedFd<'_>, folder: &str) -> bool {
    let path = format!("{folder}/{ENVIRONMENT_FILE}");
    rustix::fs::statx(parent, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE).is_ok()
}

/// Returns whether a folder is a Kubernetes volume, such as a mounted ConfigMap.
///
/// Its files are in a folder such as `..2026_01_31_12_00_00.123456789`, to which `..data` leads.
/// Each entry `NAME` is a symlink to `..data/NAME`. An update makes another such folder, and
/// replaces `..data`.
pub(crate) fn is_volume(folder: BorrowedFd<'_>) -> bool {
    generation(folder).is_some()
}

/// Returns whether an entry of a Kubernetes volume belongs to a generation. Kubernetes allows no
/// other names that start with two dots.
pub(crate) fn is_generation(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"..")
}

/// Returns whether an entry of a Kubernetes volume is a symlink to the current generation.
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

/// Looks something up in a folder, and again if it was missing because the Kubernetes volume was
/// replaced meanwhile. The old generation is removed then.
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
