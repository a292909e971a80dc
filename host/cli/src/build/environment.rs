//! The environment that a project's compiler is installed into: a folder in the
//! user's cache, one per project, made from its lock files alone. Compilers run from
//! there and never from the project's folder, where the project's author could have
//! put another program in their place. Each language's file installs and runs its
//! compiler.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use skillhost::internal::sha256_hex;

use super::Fault;
use super::project::Project;
use crate::options;
use crate::terminal::{self, format_line};

/// The folder of all environments, in the cache folder.
const ENVIRONMENTS: &str = "environments";
/// A file in an environment: the path of its project.
const PROJECT: &str = "project";
/// A file in an environment: the lock files that it was made from. It is written
/// last, so an incomplete environment has none.
const INSTALLED: &str = "installed";

const OTHER_CACHE: &str = "name another cache folder with `SKILLHOST_CACHE`";

/// The parameters of an environment.
pub(super) struct Recipe<'a> {
    /// The first part of its folder's name.
    pub(super) kind: &'a str,
    /// The project's files that name what is installed.
    pub(super) locks: &'a [&'a str],
    /// A file of a complete installation.
    pub(super) marker: &'a str,
}

/// A folder with a compiler, locked against other builds.
pub(super) struct Environment {
    pub(super) folder: PathBuf,
    /// Holds the lock until it is dropped.
    _handle: File,
}

impl Environment {
    /// Opens the environment of a project, and remakes it if the lock files have
    /// changed. `install` gets the folder, with copies of the lock files in it, and
    /// runs its commands there: in the project's folder they would find a stranger's
    /// `.npmrc`, modules and packages.
    pub(super) fn open(
        project: &Project,
        recipe: &Recipe<'_>,
        install: impl FnOnce(&Path) -> Result<(), Fault>,
    ) -> Result<Self, Fault> {
        let texts: Vec<(&str, String)> = recipe
            .locks
            .iter()
            .map(|name| Ok((*name, project.text(name)?)))
            .collect::<Result<_, Fault>>()?;
        let Some(cache) = options::cache_folder() else {
            return Err(Fault::missing(
                "there is no cache folder to install the compiler into: `SKILLHOST_CACHE` is \
                 `off`, or neither `XDG_CACHE_HOME` nor `HOME` is set",
            )
            .fix("name one with `SKILLHOST_CACHE=DIR`"));
        };
        private(&cache)?;
        private(&cache.join(ENVIRONMENTS))?;
        // An absolute path: commands run in other folders.
        let all = cache.join(ENVIRONMENTS);
        let all = all.canonicalize().map_err(|error| unusable(&all, &error))?;
        if all.starts_with(&project.folder) {
            return Err(Fault::missing(format!(
                "the cache folder `{}` lies in the project, from which nothing is run",
                cache.display()
            ))
            .fix(OTHER_CACHE));
        }
        let folder = all.join(name(recipe.kind, &project.folder));
        let environment = Self {
            _handle: lock(private(&folder)?, &folder)?,
            folder,
        };
        let locked: String = texts
            .iter()
            .map(|(name, text)| format!("{name}\n{text}\n"))
            .collect();
        if !environment.has(recipe, &locked) {
            terminal::say(&format_line!(
                "installing the packages of `{}` into `{}`; this happens once",
                recipe.locks.last().unwrap_or(&""),
                environment.folder.display()
            ));
            remove_abandoned(&all);
            environment
                .reset(project, &texts)
                .map_err(|error| unusable(&environment.folder, &error))?;
            install(&environment.folder)?;
            fs::write(environment.folder.join(INSTALLED), locked)
                .map_err(|error| unusable(&environment.folder, &error))?;
        }
        Ok(environment)
    }

    fn has(&self, recipe: &Recipe<'_>, locked: &str) -> bool {
        self.folder.join(recipe.marker).is_file()
            && fs::read_to_string(self.folder.join(INSTALLED))
                .is_ok_and(|installed| installed == locked)
    }

    /// Removes everything, and copies the lock files.
    fn reset(&self, project: &Project, texts: &[(&str, String)]) -> io::Result<()> {
        // Removed first: if the rest is interrupted, the environment is incomplete.
        remove(&self.folder.join(INSTALLED))?;
        for entry in fs::read_dir(&self.folder)? {
            remove(&entry?.path())?;
        }
        fs::write(
            self.folder.join(PROJECT),
            project.folder.as_os_str().as_bytes(),
        )?;
        for (name, text) in texts {
            fs::write(self.folder.join(name), text)?;
        }
        Ok(())
    }

    /// Copies a folder of the project to the same place here: its files, and the
    /// targets of links to files.
    pub(super) fn copy(&self, project: &Project, name: &str) -> Result<(), Fault> {
        let to = self.folder.join(name);
        remove(&to)
            .and_then(|()| copy(&project.folder.join(name), &to))
            .map_err(|error| {
                Fault::missing(format!(
                    "cannot copy `{name}` to `{}`: {error}",
                    to.display()
                ))
            })
    }
}

/// Returns the name of an environment's folder. A project has only one.
fn name(kind: &str, project: &Path) -> String {
    let digest = sha256_hex(project.as_os_str().as_bytes());
    format!("{kind}-{}", &digest[..32])
}

/// Opens a folder that only its owner can write, and makes it if there is none. Guards
/// against: another user of the machine, who prepares a compiler there.
fn private(folder: &Path) -> Result<File, Fault> {
    let open = || {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let handle = File::open(folder)?;
        let found = handle.metadata()?;
        Ok((handle, found))
    };
    let (handle, found) = open().map_err(|error| unusable(folder, &error))?;
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(Fault::missing(format!(
            "cannot keep compilers in the folder `{}`: it must belong to the user who runs \
             skillhost, and nobody else may write in it (mode 0700)",
            folder.display()
        ))
        .fix(OTHER_CACHE));
    }
    Ok(handle)
}

fn lock(handle: File, folder: &Path) -> Result<File, Fault> {
    match handle.try_lock() {
        Ok(()) => return Ok(handle),
        Err(TryLockError::WouldBlock) => {
            terminal::say(&format_line!("waiting for another build of this project"));
        }
        Err(TryLockError::Error(error)) => return Err(unusable(folder, &error)),
    }
    match handle.lock() {
        Ok(()) => Ok(handle),
        Err(error) => Err(unusable(folder, &error)),
    }
}

/// Removes the environments of projects that no longer exist.
fn remove_abandoned(environments: &Path) {
    let Ok(entries) = fs::read_dir(environments) else {
        return;
    };
    for environment in entries.flatten().map(|entry| entry.path()) {
        // A new environment does not name its project yet.
        let Ok(handle) = File::open(&environment) else {
            continue;
        };
        let Ok(project) = fs::read(environment.join(PROJECT)) else {
            continue;
        };
        if handle.try_lock().is_err() || project.is_empty() {
            continue;
        }
        let metadata = fs::symlink_metadata(OsStr::from_bytes(&project));
        if metadata.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // A failure leaves it for the next time.
            let _ = remove(&environment);
        }
    }
}

/// Removes a file or a folder, if it exists, without following a link.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        // Links to folders are left out: they may form a circle.
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else if from.is_file() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

fn unusable(folder: &Path, error: &io::Error) -> Fault {
    Fault::missing(format!(
        "cannot use the folder `{}`: {error}",
        folder.display()
    ))
    .fix(OTHER_CACHE)
}
