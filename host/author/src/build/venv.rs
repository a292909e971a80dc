//! Installs compilers and libraries from Python's registry into environments, with the
//! hashes of `requirements.txt`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Fault;
use super::environment::{Environment, Recipe};
use super::project::Project;
use super::requirements;
use super::search::SearchPath;
use super::step::{self, Step};

/// The oldest Python that the compilers run on.
const OLDEST: (u32, u32) = (3, 10);
pub(super) const LOCK: &str = "requirements.txt";
const PYTHON: &str = "bin/python";
/// The folder of the libraries in their environment.
const LIBRARIES: &str = "libraries";
/// The script that finds imports in functions.
pub(super) const LATE_IMPORTS: &str = include_str!("late_imports.py");

/// A virtual environment of Python with a compiler in it, which all projects with that
/// compiler share.
pub(super) struct Venv<'a> {
    pub(super) folder: PathBuf,
    /// The project's libraries, if it has any.
    pub(super) libraries: Option<Libraries>,
    programs: &'a SearchPath,
    _environments: (Environment, Option<Environment>),
}

/// The libraries of a project.
pub(super) struct Libraries {
    pub(super) folder: PathBuf,
    /// The folder of a module with their late imports.
    pub(super) late: PathBuf,
}

impl Libraries {
    fn in_environment(environment: &Path) -> Self {
        Self {
            folder: environment.join(LIBRARIES),
            late: environment.join("late"),
        }
    }

    /// Returns the paths of files with native code, which a component cannot load.
    pub(super) fn native(&self) -> Vec<String> {
        let (mut found, mut folders) = (Vec::new(), vec![self.folder.clone()]);
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                let is_native =
                    |found: &OsStr| ["so", "pyd", "dylib"].map(OsStr::new).contains(&found);
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else if path.extension().is_some_and(is_native) {
                    let path = path.strip_prefix(&self.folder).unwrap_or(&path);
                    found.push(path.display().to_string());
                }
            }
        }
        found.sort();
        found
    }
}

impl<'a> Venv<'a> {
    /// Opens the one of a project, and makes it if there is none.
    pub(super) fn open(project: &'a Project) -> Result<Self, Fault> {
        let programs = &project.programs;
        let text = project.text(LOCK)?;
        let requirements = requirements::read(&text).map_err(|why| {
            Fault::project(format!("`{LOCK}`, {why}"))
                .fix("write the lines of a package with `skillhost add-library NAME`")
        })?;
        let (compilers, libraries) = requirements::split(&requirements);
        let recipe = Recipe {
            kind: "python",
            locks: &[(LOCK, compilers)],
            marker: &format!("venv/{PYTHON}"),
            is_shared: true,
        };
        let compiler = Environment::open(project, &recipe, |folder| {
            let venv = folder.join("venv");
            let mut command = isolated(programs, &system(programs)?);
            command
                .args(["-m", "venv", "--clear"])
                .arg(&venv)
                .current_dir(folder);
            Step::new("`python3 -m venv`", command)
                .run()
                .map_err(|fault| {
                    fault.fix(
                    "Debian and Ubuntu package that module separately: `apt install python3-venv`",
                )
                })?;
            install(isolated(programs, &venv.join(PYTHON)), folder)
        })?;
        let venv = compiler.folder.join("venv");
        let libraries = match libraries.is_empty() {
            true => None,
            false => {
                let recipe = Recipe {
                    kind: "libraries",
                    locks: &[(LOCK, libraries)],
                    marker: LIBRARIES,
                    is_shared: true,
                };
                Some(Environment::open(project, &recipe, |folder| {
                    let mut command = isolated(programs, &venv.join(PYTHON));
                    command.env("PIP_TARGET", folder.join(LIBRARIES));
                    install(command, folder)?;
                    let libraries = Libraries::in_environment(folder);
                    let mut command = isolated(programs, &venv.join(PYTHON));
                    command
                        .args(["-c", LATE_IMPORTS])
                        .arg(libraries.late.join("skillhost_late_libraries.py"))
                        .arg(&libraries.folder)
                        .current_dir(folder);
                    fs::create_dir_all(&libraries.late).map_err(|error| {
                        Fault::missing(format!(
                            "cannot write `{}`: {error}",
                            libraries.late.display()
                        ))
                    })?;
                    Step::new("reading the imports of the libraries", command)
                        .run()
                        .map(drop)
                })?)
            }
        };
        Ok(Self {
            folder: venv,
            libraries: libraries
                .as_ref()
                .map(|it| Libraries::in_environment(&it.folder)),
            programs,
            _environments: (compiler, libraries),
        })
    }

    /// Returns a command that runs its Python.
    pub(super) fn python(&self) -> Command {
        isolated(self.programs, &self.folder.join(PYTHON))
    }
}

/// Installs the packages of a folder's lock with pip. No code of theirs runs.
fn install(mut python: Command, folder: &Path) -> Result<(), Fault> {
    python
        .args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--require-hashes"])
        // As constraints too: of a package that another wants with extras, pip would look
        // at the newest version, which has no hash.
        .args(["--only-binary", ":all:", "-r", LOCK, "-c", LOCK])
        .current_dir(folder);
    let mut step = Step::new("`pip install`", python);
    step.is_noise = is_retry;
    step.run().map_err(|fault| {
        fault
            .fix(
                "it needs the Python registry, at the address of `PIP_INDEX_URL` or pip's \
                 settings, and wheels for this machine: packages that are built when they are \
                 installed are refused",
            )
            .fix(
                "every package in `requirements.txt`, and every one that it needs, stands there \
                 with its version and hashes: `skillhost add-library NAME` writes them",
            )
    })?;
    Ok(())
}

/// Checks whether a line of pip announces another try of a connection. The last one says
/// why all of them failed.
pub(super) fn is_retry(line: &str) -> bool {
    let tries = line.strip_prefix("WARNING: Retrying (Retry(total=");
    tries.is_some_and(|tries| !tries.starts_with("0,"))
}

/// Returns a command that runs Python without the modules of the folder that it
/// starts in. Guards against: a `venv.py` or `pip.py` in a project.
fn isolated(programs: &SearchPath, python: &Path) -> Command {
    let mut command = programs.command(python);
    command.arg("-I");
    command
}

/// Returns the machine's Python, if it is new enough.
fn system(programs: &SearchPath) -> Result<PathBuf, Fault> {
    let how = "get it from https://www.python.org/downloads, or as your system's packages \
               `python3` and `python3-venv`";
    let needed = format!("Python {}.{} or newer is needed", OLDEST.0, OLDEST.1);
    let python = programs.find("python3");
    let python = python.map_err(|fault| fault.fix(&needed).fix(how))?;
    let ask = "import sys; print(sys.version_info[0], sys.version_info[1])";
    let mut command = isolated(programs, &python);
    // A version manager reads settings from the folder that it starts in.
    command.args(["-c", ask]).current_dir("/");
    let version = step::ask(&mut command);
    let version = version.as_deref().and_then(|text| {
        let (major, minor) = text.split_once(' ')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    match version {
        Some(version) if version >= OLDEST => Ok(python),
        Some((major, minor)) => Err(Fault::missing(format!(
            "`{}` is Python {major}.{minor}; {needed}",
            python.display()
        ))
        .fix(how)),
        None => Err(Fault::missing(format!("`{}` does not run", python.display())).fix(how)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_one_of_several_tries_of_a_connection() {
        let line = |left| format!("WARNING: Retrying (Retry(total={left}, connect=None)) after");
        for (line, is_left_out) in [
            (line(4), true),
            (line(10), true),
            (line(0), false),
            ("ERROR: No matching distribution found".to_owned(), false),
        ] {
            assert_eq!(is_retry(&line), is_left_out, "{line}");
        }
    }
}
