//! Environments: folders in the user's cache that compilers are installed into.
//!
//! An environment is made from the project's lock files alone. Projects with the same lock files
//! share an environment, unless it must contain their sources. Compilers run from there and never
//! from the project's folder, where the project's author could have replaced them. The module of
//! each language installs and runs its compiler.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use skillhost::Trust;
use skillhost_skills::text::digest::sha256_hex;
use skillhost_skills::trust::own_folder;

use super::BuildError;
use super::project::Project;
use skillhost_program::options;
use skillhost_program::terminal::{self, format_line};

/// The folder of all environments, in the cache folder.
const ENVIRONMENTS: &str = "environments";
/// The file in an environment with the path of its project.
const PROJECT: &str = "project";
/// The file in an environment with its lock files and the real path of its
/// [marker](Recipe::marker). It is written last, so an incomplete environment does not have it.
const INSTALLED: &str = "installed";
/// The time without a build after which a shared environment is removed.
const MAX_UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

const CACHE_ADVICE: &str = "name another cache folder with `SKILLHOST_CACHE`";

/// The description of an environment.
pub(super) struct Recipe<'a> {
    /// The first part of the folder's name.
    pub(super) kind: &'a str,
    /// The names and texts of the lock files.
    pub(super) locks: &'a [(&'a str, String)],
    /// A file or folder that a complete installation has.
    pub(super) marker: &'a str,
    /// True if projects with the same lock files share the environment.
    pub(super) is_shared: bool,
}

/// A folder with a compiler, locked against builds that would change it.
pub(super) struct Environment {
    pub(super) folder: PathBuf,
    /// The handle of the folder. The lock lasts until it is dropped.
    handle: File,
}

impl Environment {
    /// Opens the environment of a project, and installs it again if the lock files have changed.
    ///
    /// `install` gets the folder, with copies of the lock files, and runs its commands there: in
    /// the project's folder they would find an untrusted `.npmrc`, modules and packages.
    pub(super) fn open(
        project: &Project,
        recipe: &Recipe<'_>,
        install: impl FnOnce(&Path) -> Result<(), BuildError>,
    ) -> Result<Self, BuildError> {
        let environments = environments_folder(project)?;
        let lock_texts: String = recipe
            .locks
            .iter()
            .map(|(name, text)| format!("{name}\n{text}\n"))
            .collect();
        let key = if recipe.is_shared {
            lock_texts.as_bytes()
        } else {
            project.folder.as_os_str().as_bytes()
        };
        let folder = environments.join(folder_name(recipe.kind, key));
        let mut environment = Self::open_locked(&folder, recipe.is_shared)?;
        if recipe.is_shared && !environment.is_installed(recipe, &lock_texts) {
            // Another build may install it before this one has the exclusive lock.
            drop(environment);
            environment = Self::open_locked(&folder, false)?;
        }
        if !environment.is_installed(recipe, &lock_texts) {
            terminal::say(&format_line!(
                "installing the packages of `{}` into `{}`; this happens once",
                recipe.locks.last().map_or("", |(name, _)| name),
                environment.folder.display()
            ));
            remove_abandoned(&environments);
            environment
                .reset(project, recipe)
                .map_err(|error| cannot_use(&environment.folder, &error))?;
            install(&environment.folder)?;
            let record = environment.install_record(recipe, &lock_texts);
            fs::write(environment.folder.join(INSTALLED), record)
                .map_err(|error| cannot_use(&environment.folder, &error))?;
        } else if recipe.is_shared {
            // Mark the environment as used. If this fails, the environment only looks older.
            let _ = File::open(environment.folder.join(INSTALLED))
                .and_then(|file| file.set_modified(SystemTime::now()));
        }
        Ok(environment)
    }

    /// Opens a folder and locks it, either exclusively or with other builds that only read it.
    fn open_locked(folder: &Path, is_shared: bool) -> Result<Self, BuildError> {
        loop {
            let environment = Self {
                handle: open_private(folder)?,
                folder: folder.to_owned(),
            };
            environment.lock(is_shared)?;
            // Before the lock, another build may have removed the folder, and a third one may have
            // created it again.
            let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            let locked = environment.handle.metadata().map(inode);
            let locked = locked.map_err(|error| cannot_use(folder, &error))?;
            if fs::metadata(folder).is_ok_and(|current| inode(current) == locked) {
                return Ok(environment);
            }
        }
    }

    fn lock(&self, is_shared: bool) -> Result<(), BuildError> {
        let (attempt, wait): (_, fn(&File) -> io::Result<()>) = if is_shared {
            (self.handle.try_lock_shared(), File::lock_shared)
        } else {
            (self.handle.try_lock(), File::lock)
        };
        let result = match attempt {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {
                terminal::say(&format_line!(
                    "waiting for another build of this project or with the same compiler"
                ));
                wait(&self.handle)
            }
            Err(TryLockError::Error(error)) => Err(error),
        };
        result.map_err(|error| cannot_use(&self.folder, &error))
    }

    /// Checks for a complete installation of these lock files.
    fn is_installed(&self, recipe: &Recipe<'_>, lock_texts: &str) -> bool {
        self.folder.join(recipe.marker).exists()
            && fs::read_to_string(self.folder.join(INSTALLED))
                .is_ok_and(|record| record == self.install_record(recipe, lock_texts))
    }

    /// Returns the content of the file `installed`: the lock files, and the real path of the
    /// marker. Python's marker is a symlink to the system's Python, whose version may change.
    fn install_record(&self, recipe: &Recipe<'_>, lock_texts: &str) -> String {
        let marker = self.folder.join(recipe.marker);
        let real = marker.canonicalize().unwrap_or(marker);
        // A marker inside the folder has a relative path, so that the folder can be moved.
        let folder = self.folder.canonicalize().unwrap_or_default();
        let real = real.strip_prefix(folder).unwrap_or(&real);
        format!("{lock_texts}{}\n", real.display())
    }

    /// Removes all files, and writes the lock files.
    fn reset(&self, project: &Project, recipe: &Recipe<'_>) -> io::Result<()> {
        // Remove this file first, so that the environment is incomplete if the rest is interrupted.
        remove(&self.folder.join(INSTALLED))?;
        for entry in fs::read_dir(&self.folder)? {
            remove(&entry?.path())?;
        }
        if !recipe.is_shared {
            write_project_path(&self.folder, project)?;
        }
        for (name, text) in recipe.locks {
            fs::write(self.folder.join(name), text)?;
        }
        Ok(())
    }

    /// Copies a folder of the project into the environment. Follows symlinks to files, and leaves
    /// out symlinks to folders.
    pub(super) fn copy(&self, project: &Project, name: &str) -> Result<(), BuildError> {
        let to = self.folder.join(name);
        remove(&to)
            .and_then(|()| copy_folder(&project.folder.join(name), &to))
            .map_err(|error| {
                BuildError::setup(format!(
                    "cannot copy `{name}` to `{}`: {error}",
                    to.display()
                ))
            })
    }
}

/// Returns the folder of a project in the cache, for data that later builds reuse.
pub(super) fn project_folder(project: &Project) -> Result<PathBuf, BuildError> {
    let name = folder_name("project", project.folder.as_os_str().as_bytes());
    let folder = environments_folder(project)?.join(name);
    open_private(&folder)?;
    write_project_path(&folder, project).map_err(|error| cannot_use(&folder, &error))?;
    Ok(folder)
}

fn write_project_path(folder: &Path, project: &Project) -> io::Result<()> {
    fs::write(folder.join(PROJECT), project.folder.as_os_str().as_bytes())
}

/// Returns the absolute path of the folder of all environments.
fn environments_folder(project: &Project) -> Result<PathBuf, BuildError> {
    let Some(cache) = options::cache_folder() else {
        return Err(BuildError::setup(
            "there is no cache folder to install the compiler into: `SKILLHOST_CACHE` is \
             `off`, or neither `XDG_CACHE_HOME` nor `HOME` is set",
        )
        .fix("name one with `SKILLHOST_CACHE=DIR`"));
    };
    open_private(&cache)?;
    let folder = cache.join(ENVIRONMENTS);
    open_private(&folder)?;
    let folder = folder
        .canonicalize()
        .map_err(|error| cannot_use(&folder, &error))?;
    if folder.starts_with(&project.folder) {
        return Err(BuildError::setup(format!(
            "the cache folder `{}` is in the project, and a build runs no program from there",
            cache.display()
        ))
        .fix(CACHE_ADVICE));
    }
    Ok(folder)
}

/// Returns the name of the folder for a key: the path of a project, or the text of lock files.
fn folder_name(kind: &str, key: &[u8]) -> String {
    let digest = sha256_hex(key);
    format!("{kind}-{}", &digest[..32])
}

/// Opens or creates a folder that only its owner can write.
///
/// Guards against: another user of the machine who puts a compiler there.
fn open_private(folder: &Path) -> Result<File, BuildError> {
    let opened = own_folder(folder, &Trust::new());
    opened.map(File::from).map_err(|error| {
        BuildError::setup(format!(
            "cannot keep compilers in the folder `{}`: {error:#}",
            folder.display()
        ))
        .fix(CACHE_ADVICE)
    })
}

/// Removes the environments of projects that no longer exist, and shared environments that no
/// build has used for [`MAX_UNUSED`].
fn remove_abandoned(environments: &Path) {
    let Ok(entries) = fs::read_dir(environments) else {
        return;
    };
    for environment in entries.flatten().map(|entry| entry.path()) {
        let Ok(handle) = File::open(&environment) else {
            continue;
        };
        if handle.try_lock().is_err() {
            continue;
        }
        let is_abandoned = match fs::read(environment.join(PROJECT)) {
            // Another build is creating it.
            Ok(project) if project.is_empty() => false,
            Ok(project) => fs::symlink_metadata(OsStr::from_bytes(&project))
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound),
            Err(_) => fs::metadata(environment.join(INSTALLED))
                .or_else(|_| fs::metadata(&environment))
                .and_then(|metadata| metadata.modified())
                .is_ok_and(|used| used.elapsed().is_ok_and(|unused| unused > MAX_UNUSED)),
        };
        if is_abandoned {
            // After an error, the next installation tries again.
            let _ = remove(&environment);
        }
    }
}

/// Removes a file or a folder, if it exists, without following a link.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        // Symlinks to folders are left out, because they may form a cycle.
        if entry.file_type()?.is_dir() {
            copy_folder(&from, &to)?;
        } else if from.is_file() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

fn cannot_use(folder: &Path, error: &io::Error) -> BuildError {
    BuildError::setup(format!(
        "cannot use the folder `{}`: {error}",
        folder.display()
    ))
    .fix(CACHE_ADVICE)
}
