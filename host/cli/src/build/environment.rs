//! The environment that a project's compiler is installed into: a folder in
//! the user's cache, one for each project, made from its lock files alone.
//! Compilers run from there and never from the project's folder, where whoever
//! wrote the project could have put another program in their place. How each
//! compiler is installed and called stands in the file of its language.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::Fault;
use super::project::Project;
use crate::options;
use crate::terminal::{self, format_line};

/// Where environments lie in the cache folder.
const ENVIRONMENTS: &str = "environments";
/// In an environment: the project that it is for.
const PROJECT: &str = "project";
/// In an environment: the lock files that it was made from. It is written last,
/// so that an environment that is half made has none.
const INSTALLED: &str = "installed";

/// How an environment is made.
pub(super) struct Recipe<'a> {
    /// Part of its folder's name.
    pub(super) kind: &'a str,
    /// The project's files that say what is installed.
    pub(super) locks: &'a [&'a str],
    /// A file that a finished installation has.
    pub(super) brings: &'a str,
}

/// A folder with a compiler in it. No other build uses it at the same time.
pub(super) struct Environment {
    pub(super) folder: PathBuf,
    /// Locked until it is dropped.
    _handle: File,
}

impl Environment {
    /// Opens the environment of a project, and makes it anew if the lock files
    /// have changed. `install` runs its commands in the folder that it is given,
    /// which holds copies of the lock files: in the project's folder they would
    /// find a stranger's `.npmrc`, modules and packages.
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
            .fix("`SKILLHOST_CACHE=DIR` names one"));
        };
        private(&cache)?;
        private(&cache.join(ENVIRONMENTS))?;
        // Commands are started elsewhere.
        let all = cache.join(ENVIRONMENTS);
        let all = all.canonicalize().map_err(|error| unusable(&all, &error))?;
        if all.starts_with(&project.folder) {
            return Err(Fault::missing(format!(
                "the cache folder `{}` lies in the project, from which nothing is run",
                cache.display()
            ))
            .fix("`SKILLHOST_CACHE` names another one"));
        }
        let folder = all.join(name(recipe.kind, &project.folder));
        let environment = Self {
            _handle: lock(private(&folder)?, &folder)?,
            folder,
        };
        let wanted: String = texts
            .iter()
            .map(|(name, text)| format!("{name}\n{text}\n"))
            .collect();
        if !environment.has(recipe, &wanted) {
            terminal::say(&format_line!(
                "installing what `{}` names into `{}`; this happens once",
                recipe.locks.last().unwrap_or(&""),
                environment.folder.display()
            ));
            remove_abandoned(&all);
            environment
                .empty(project, &texts)
                .map_err(|error| unusable(&environment.folder, &error))?;
            install(&environment.folder)?;
            fs::write(environment.folder.join(INSTALLED), wanted)
                .map_err(|error| unusable(&environment.folder, &error))?;
        }
        Ok(environment)
    }

    fn has(&self, recipe: &Recipe<'_>, wanted: &str) -> bool {
        self.folder.join(recipe.brings).is_file()
            && fs::read_to_string(self.folder.join(INSTALLED)).is_ok_and(|found| found == wanted)
    }

    /// Leaves nothing in it but the lock files.
    fn empty(&self, project: &Project, texts: &[(&str, String)]) -> io::Result<()> {
        // If this is broken off, what is left is half an environment.
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

    /// Copies a folder of the project to the same place here: files, and what
    /// links to files.
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

/// The name of an environment's folder. The same project always has the same,
/// so that there is never more than one.
fn name(kind: &str, project: &Path) -> String {
    let digest = Sha256::digest(project.as_os_str().as_bytes());
    let digits: Vec<String> = digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{kind}-{}", digits.concat())
}

/// Makes a folder that is its owner's alone, or opens it if it is. Meets:
/// another user of the machine, who prepares a compiler there.
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
            "the folder `{}` is not used for compilers: it must belong to the user who runs \
             skillhost, and nobody else may write in it (mode 0700)",
            folder.display()
        ))
        .fix("`SKILLHOST_CACHE` names another cache folder"));
    }
    Ok(handle)
}

fn lock(handle: File, folder: &Path) -> Result<File, Fault> {
    match handle.try_lock() {
        Ok(()) => return Ok(handle),
        Err(TryLockError::WouldBlock) => {
            terminal::say(&format_line!(
                "another build of this project runs; waiting for its end"
            ));
        }
        Err(TryLockError::Error(error)) => return Err(unusable(folder, &error)),
    }
    match handle.lock() {
        Ok(()) => Ok(handle),
        Err(error) => Err(unusable(folder, &error)),
    }
}

/// Removes the environments of projects that are gone.
fn remove_abandoned(environments: &Path) {
    let Ok(entries) = fs::read_dir(environments) else {
        return;
    };
    for environment in entries.flatten().map(|entry| entry.path()) {
        // One that is being made names its project a moment later.
        let Ok(handle) = File::open(&environment) else {
            continue;
        };
        let Ok(project) = fs::read(environment.join(PROJECT)) else {
            continue;
        };
        if handle.try_lock().is_err() || project.is_empty() {
            continue;
        }
        let there = fs::symlink_metadata(OsStr::from_bytes(&project));
        if there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // It is in nobody's way.
            let _ = remove(&environment);
        }
    }
}

/// Removes whatever lies there, if anything does. A link is not followed.
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
        // A link to a folder may lead around in a circle.
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
    .fix("`SKILLHOST_CACHE` names another cache folder")
}
