//! The environment that a project's compiler is installed into: a folder in the
//! user's cache, made from the project's lock files alone. Projects with the same
//! locks share it, unless their sources must lie in it. Compilers run from there and
//! never from the project's folder, where the project's author could have put another
//! program in their place. Each language's file installs and runs its compiler.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use skillhost::Trust;
use skillhost::internal::{own_folder, sha256_hex};

use super::Fault;
use super::project::Project;
use skillhost_program::options;
use skillhost_program::terminal::{self, format_line};

/// The folder of all environments, in the cache folder.
const ENVIRONMENTS: &str = "environments";
/// A file in an environment: the path of its project.
const PROJECT: &str = "project";
/// A file in an environment: the lock files that it was made from, and where its marker
/// leads. It is written last, so an incomplete environment has none.
const INSTALLED: &str = "installed";
/// The time after which a shared environment that no build used is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

const OTHER_CACHE: &str = "name another cache folder with `SKILLHOST_CACHE`";

/// The parameters of an environment.
pub(super) struct Recipe<'a> {
    /// The first part of its folder's name.
    pub(super) kind: &'a str,
    /// The names and texts of the files that say what is installed.
    pub(super) locks: &'a [(&'a str, String)],
    /// A file or folder of a complete installation.
    pub(super) marker: &'a str,
    /// Whether projects with the same locks share it.
    pub(super) is_shared: bool,
}

/// A folder with a compiler, locked against a build that would change it.
pub(super) struct Environment {
    pub(super) folder: PathBuf,
    /// Holds the lock until it is dropped.
    handle: File,
}

impl Environment {
    /// Opens the environment of a project, and makes it anew if the locks have changed.
    /// `install` gets the folder, with copies of the locks in it, and runs its commands
    /// there: in the project's folder they would find a stranger's `.npmrc`, modules
    /// and packages.
    pub(super) fn open(
        project: &Project,
        recipe: &Recipe<'_>,
        install: impl FnOnce(&Path) -> Result<(), Fault>,
    ) -> Result<Self, Fault> {
        let all = environments(project)?;
        let locked: String = recipe
            .locks
            .iter()
            .map(|(name, text)| format!("{name}\n{text}\n"))
            .collect();
        let folder = all.join(match recipe.is_shared {
            true => name(recipe.kind, locked.as_bytes()),
            false => name(recipe.kind, project.folder.as_os_str().as_bytes()),
        });
        let mut environment = Self::locked(&folder, recipe.is_shared)?;
        if recipe.is_shared && !environment.has(recipe, &locked) {
            // Another build may install it meanwhile.
            drop(environment);
            environment = Self::locked(&folder, false)?;
        }
        if !environment.has(recipe, &locked) {
            terminal::say(&format_line!(
                "installing the packages of `{}` into `{}`; this happens once",
                recipe.locks.last().map_or("", |(name, _)| name),
                environment.folder.display()
            ));
            remove_abandoned(&all);
            environment
                .reset(project, recipe)
                .map_err(|error| unusable(&environment.folder, &error))?;
            install(&environment.folder)?;
            let installed = environment.installed(recipe, &locked);
            fs::write(environment.folder.join(INSTALLED), installed)
                .map_err(|error| unusable(&environment.folder, &error))?;
        } else if recipe.is_shared {
            // It is in use. A failure makes it look older than it is.
            let _ = File::open(environment.folder.join(INSTALLED))
                .and_then(|file| file.set_modified(SystemTime::now()));
        }
        Ok(environment)
    }

    /// Opens a folder and locks it, for this build alone or with others that only read it.
    fn locked(folder: &Path, is_shared: bool) -> Result<Self, Fault> {
        loop {
            let environment = Self {
                handle: private(folder)?,
                folder: folder.to_owned(),
            };
            environment.lock(is_shared)?;
            // While this waited, another may have removed the folder, and a third made it
            // again.
            let identity = |found: fs::Metadata| (found.dev(), found.ino());
            let here = environment.handle.metadata().map(identity);
            let here = here.map_err(|error| unusable(folder, &error))?;
            if fs::metadata(folder).is_ok_and(|there| identity(there) == here) {
                return Ok(environment);
            }
        }
    }

    fn lock(&self, is_shared: bool) -> Result<(), Fault> {
        let (tried, wait): (_, fn(&File) -> io::Result<()>) = match is_shared {
            true => (self.handle.try_lock_shared(), File::lock_shared),
            false => (self.handle.try_lock(), File::lock),
        };
        let locked = match tried {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {
                terminal::say(&format_line!(
                    "waiting for another build of this project or with this compiler"
                ));
                wait(&self.handle)
            }
            Err(TryLockError::Error(error)) => Err(error),
        };
        locked.map_err(|error| unusable(&self.folder, &error))
    }

    fn has(&self, recipe: &Recipe<'_>, locked: &str) -> bool {
        self.folder.join(recipe.marker).exists()
            && fs::read_to_string(self.folder.join(INSTALLED))
                .is_ok_and(|installed| installed == self.installed(recipe, locked))
    }

    /// Returns what a complete installation notes: its locks, and where its marker leads.
    /// That of Python leads out, to another version once the system has one.
    fn installed(&self, recipe: &Recipe<'_>, locked: &str) -> String {
        let marker = self.folder.join(recipe.marker);
        let real = marker.canonicalize().unwrap_or(marker);
        // One that leads nowhere else stays the same if the folder is moved.
        let folder = self.folder.canonicalize().unwrap_or_default();
        let real = real.strip_prefix(folder).unwrap_or(&real);
        format!("{locked}{}\n", real.display())
    }

    /// Removes everything, and writes the locks.
    fn reset(&self, project: &Project, recipe: &Recipe<'_>) -> io::Result<()> {
        // Removed first: if the rest is interrupted, the environment is incomplete.
        remove(&self.folder.join(INSTALLED))?;
        for entry in fs::read_dir(&self.folder)? {
            remove(&entry?.path())?;
        }
        if !recipe.is_shared {
            name_project(&self.folder, project)?;
        }
        for (name, text) in recipe.locks {
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

/// Returns the folder of a project in the cache, for what later builds of it take up.
pub(super) fn project_folder(project: &Project) -> Result<PathBuf, Fault> {
    let name = name("project", project.folder.as_os_str().as_bytes());
    let folder = environments(project)?.join(name);
    private(&folder)?;
    name_project(&folder, project).map_err(|error| unusable(&folder, &error))?;
    Ok(folder)
}

fn name_project(folder: &Path, project: &Project) -> io::Result<()> {
    fs::write(folder.join(PROJECT), project.folder.as_os_str().as_bytes())
}

/// Returns the folder of all environments. Its path is absolute: commands run in other
/// folders.
fn environments(project: &Project) -> Result<PathBuf, Fault> {
    let Some(cache) = options::cache_folder() else {
        return Err(Fault::missing(
            "there is no cache folder to install the compiler into: `SKILLHOST_CACHE` is \
             `off`, or neither `XDG_CACHE_HOME` nor `HOME` is set",
        )
        .fix("name one with `SKILLHOST_CACHE=DIR`"));
    };
    private(&cache)?;
    private(&cache.join(ENVIRONMENTS))?;
    let all = cache.join(ENVIRONMENTS);
    let all = all.canonicalize().map_err(|error| unusable(&all, &error))?;
    if all.starts_with(&project.folder) {
        return Err(Fault::missing(format!(
            "the cache folder `{}` lies in the project, from which nothing is run",
            cache.display()
        ))
        .fix(OTHER_CACHE));
    }
    Ok(all)
}

/// Returns the name of the environment's folder for a project or for locks.
fn name(kind: &str, of: &[u8]) -> String {
    let digest = sha256_hex(of);
    format!("{kind}-{}", &digest[..32])
}

/// Opens a folder that only its owner can write, and makes it if there is none. Guards
/// against: another user of the machine, who prepares a compiler there.
fn private(folder: &Path) -> Result<File, Fault> {
    let opened = own_folder(folder, &Trust::new());
    opened.map(File::from).map_err(|error| {
        Fault::missing(format!(
            "cannot keep compilers in the folder `{}`: {error:#}",
            folder.display()
        ))
        .fix(OTHER_CACHE)
    })
}

/// Removes the environments of projects that no longer exist, and shared ones that no
/// build uses.
fn remove_abandoned(environments: &Path) {
    let Ok(entries) = fs::read_dir(environments) else {
        return;
    };
    for environment in entries.flatten().map(|entry| entry.path()) {
        // A new environment does not name its project yet.
        let Ok(handle) = File::open(&environment) else {
            continue;
        };
        if handle.try_lock().is_err() {
            continue;
        }
        let is_abandoned = match fs::read(environment.join(PROJECT)) {
            Ok(project) if project.is_empty() => false,
            Ok(project) => fs::symlink_metadata(OsStr::from_bytes(&project))
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound),
            Err(_) => fs::metadata(environment.join(INSTALLED))
                .or_else(|_| fs::metadata(&environment))
                .and_then(|found| found.modified())
                .is_ok_and(|used| used.elapsed().is_ok_and(|since| since > UNUSED)),
        };
        if is_abandoned {
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
