//! Installs compilers and libraries from Python's registry into environments, with the
//! hashes of `requirements.txt`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::BuildError;
use super::environment::{Environment, Recipe};
use super::project::Project;
use super::requirements::{self, Requirement};
use super::search::SearchPath;
use super::step::{self, Step};

/// The oldest Python that the compilers run on.
const MIN_PYTHON_VERSION: (u32, u32) = (3, 10);
pub(super) const LOCK: &str = "requirements.txt";
const PYTHON: &str = "bin/python";
/// The folder of the libraries in their environment.
const LIBRARIES: &str = "libraries";
/// The script that finds late imports: those in functions.
pub(super) const LATE_IMPORTS: &str = include_str!("late_imports.py");

/// A Python virtual environment with a compiler, shared by all projects with that compiler.
pub(super) struct Venv<'a> {
    pub(super) folder: PathBuf,
    /// The project's libraries, if it has any.
    pub(super) libraries: Option<Libraries>,
    programs: &'a SearchPath,
    /// The environments, which stay locked until this is dropped.
    _environments: (Environment, Option<Environment>),
}

/// The libraries of a project.
pub(super) struct Libraries {
    pub(super) folder: PathBuf,
    /// The folder of the module that lists their late imports.
    pub(super) late: PathBuf,
}

impl Libraries {
    fn in_environment(environment: &Path) -> Self {
        Self {
            folder: environment.join(LIBRARIES),
            late: environment.join("late"),
        }
    }

    /// Returns the sorted relative paths of files with native code, which a component cannot load.
    pub(super) fn native_files(&self) -> Vec<String> {
        let (mut native, mut folders) = (Vec::new(), vec![self.folder.clone()]);
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                let extension = path.extension().unwrap_or_default();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path);
                } else if ["so", "pyd", "dylib"]
                    .iter()
                    .any(|native| extension == *native)
                {
                    let path = path.strip_prefix(&self.folder).unwrap_or(&path);
                    native.push(path.display().to_string());
                }
            }
        }
        native.sort();
        native
    }
}

/// Reads the text of a project's `requirements.txt`.
pub(super) fn parse_lock(text: &str) -> Result<Vec<Requirement<'_>>, BuildError> {
    requirements::parse(text).map_err(|error| {
        BuildError::project(format!("`{LOCK}`, {error}"))
            .fix("write the lines of a package with `skillhost add-library NAME`")
    })
}

impl<'a> Venv<'a> {
    /// Opens the environments of a project, and installs what is missing.
    pub(super) fn open(project: &'a Project) -> Result<Self, BuildError> {
        let text = project.text(LOCK)?;
        let (compilers, libraries) = requirements::split_compilers(&parse_lock(&text)?);
        let compiler = open_compiler(project, compilers)?;
        let folder = compiler.folder.join("venv");
        let libraries = if libraries.is_empty() {
            None
        } else {
            Some(open_libraries(project, libraries, &folder.join(PYTHON))?)
        };
        Ok(Self {
            folder,
            libraries: libraries
                .as_ref()
                .map(|environment| Libraries::in_environment(&environment.folder)),
            programs: &project.programs,
            _environments: (compiler, libraries),
        })
    }

    /// Returns a command that runs the Python of the environment.
    pub(super) fn python(&self) -> Command {
        isolated_python(self.programs, &self.folder.join(PYTHON))
    }
}

/// Opens the environment of the compilers that `lock` pins.
fn open_compiler(project: &Project, lock: String) -> Result<Environment, BuildError> {
    let programs = &project.programs;
    let recipe = Recipe {
        kind: "python",
        locks: &[(LOCK, lock)],
        marker: &format!("venv/{PYTHON}"),
        is_shared: true,
    };
    Environment::open(project, &recipe, |folder| {
        let venv = folder.join("venv");
        let mut command = isolated_python(programs, &find_python(programs)?);
        command
            .args(["-m", "venv", "--clear"])
            .arg(&venv)
            .current_dir(folder);
        Step::new("`python3 -m venv`", command)
            .run()
            .map_err(|error| {
                error.fix(
                    "Debian and Ubuntu package that module separately: `apt install python3-venv`",
                )
            })?;
        install(isolated_python(programs, &venv.join(PYTHON)), folder)
    })
}

/// Opens the environment of the libraries that `lock` pins.
fn open_libraries(
    project: &Project,
    lock: String,
    python: &Path,
) -> Result<Environment, BuildError> {
    let programs = &project.programs;
    let recipe = Recipe {
        kind: "libraries",
        locks: &[(LOCK, lock)],
        marker: LIBRARIES,
        is_shared: true,
    };
    Environment::open(project, &recipe, |folder| {
        let libraries = Libraries::in_environment(folder);
        let mut command = isolated_python(programs, python);
        command.env("PIP_TARGET", &libraries.folder);
        install(command, folder)?;
        fs::create_dir_all(&libraries.late).map_err(|error| {
            BuildError::setup(format!(
                "cannot create `{}`: {error}",
                libraries.late.display()
            ))
        })?;
        let mut command = isolated_python(programs, python);
        command
            .args(["-c", LATE_IMPORTS])
            .arg(libraries.late.join("skillhost_late_libraries.py"))
            .arg(&libraries.folder)
            .current_dir(folder);
        Step::new("reading the imports of the libraries", command)
            .run()
            .map(drop)
    })
}

/// Installs the packages of a folder's lock file with pip, and runs none of their code.
fn install(mut python: Command, folder: &Path) -> Result<(), BuildError> {
    python
        .args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--require-hashes"])
        // Pass the lock file as constraints too: if a package needs extras of a pinned one, pip
        // otherwise takes the newest version of the pinned one, which has no hash.
        .args(["--only-binary", ":all:", "-r", LOCK, "-c", LOCK])
        .current_dir(folder);
    let mut step = Step::new("`pip install`", python);
    step.is_noise = is_retry;
    step.run().map_err(|error| {
        error
            .fix(
                "it needs the Python registry, at the address of `PIP_INDEX_URL` or pip's \
                 settings, and wheels for this machine: packages that are built when they are \
                 installed are refused",
            )
            .fix(
                "`requirements.txt` must list every package, and every package that it needs, \
                 with version and hashes: `skillhost add-library NAME` writes them",
            )
    })?;
    Ok(())
}

/// Checks whether a line of pip announces another retry of a connection. Returns `false` for the
/// last retry, because its line gives the reason.
pub(super) fn is_retry(line: &str) -> bool {
    let tries = line.strip_prefix("WARNING: Retrying (Retry(total=");
    tries.is_some_and(|tries| !tries.starts_with("0,"))
}

/// Returns a command that runs Python without modules from the current folder.
///
/// Guards against: a `venv.py` or `pip.py` in a project.
fn isolated_python(programs: &SearchPath, python: &Path) -> Command {
    let mut command = programs.command(python);
    command.arg("-I");
    command
}

/// Returns the machine's Python if it is new enough.
fn find_python(programs: &SearchPath) -> Result<PathBuf, BuildError> {
    let advice = "get it from https://www.python.org/downloads, or as your system's packages \
                  `python3` and `python3-venv`";
    let (major, minor) = MIN_PYTHON_VERSION;
    let needed = format!("Python {major}.{minor} or newer is needed");
    let python = programs
        .find("python3")
        .map_err(|error| error.fix(&needed).fix(advice))?;
    let print_version = "import sys; print(sys.version_info[0], sys.version_info[1])";
    let mut command = isolated_python(programs, &python);
    // A version manager reads settings from the current folder.
    command.args(["-c", print_version]).current_dir("/");
    let version = step::output(&mut command).and_then(|text| {
        let (major, minor) = text.split_once(' ')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    match version {
        Some(version) if version >= MIN_PYTHON_VERSION => Ok(python),
        Some((major, minor)) => Err(BuildError::setup(format!(
            "`{}` is Python {major}.{minor}; {needed}",
            python.display()
        ))
        .fix(advice)),
        None => Err(BuildError::setup(format!("`{}` does not run", python.display())).fix(advice)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warns_of_imports_that_no_call_can_make() {
        let folder = tempfile::tempdir().unwrap();
        let source = "import json\ndef run():\n    import socket, csv\n    from urllib import request\n    \
                      import subprocess\n    try:\n        import ssl\n    except ImportError:\n        pass\n";
        let read = |file: &str| {
            fs::write(folder.path().join(file), source).unwrap();
            let mut command = Command::new("python3");
            command.args(["-I", "-c", LATE_IMPORTS]);
            command.arg(folder.path().join("out")).arg(folder.path());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        // A library has no `tool.py`.
        assert_eq!(read("library.py"), "");
        fs::remove_file(folder.path().join("library.py")).unwrap();
        let warnings = read("tool.py");
        let lines: Vec<&str> = warnings.lines().collect();
        assert_eq!(lines.len(), 3, "{warnings}");
        for (line, words) in lines.iter().zip([
            "tool.py:3: warning: a call cannot import `socket`: a tool has no sockets",
            "tool.py:4: warning: a call cannot import `urllib.request`: a tool has no sockets",
            "tool.py:5: warning: a call cannot import `subprocess`: a tool starts no processes",
        ]) {
            assert!(line.starts_with(words), "{warnings}");
        }
    }

    #[test]
    fn shows_only_the_last_retry() {
        let line =
            |retries| format!("WARNING: Retrying (Retry(total={retries}, connect=None)) after");
        for (line, is_hidden) in [
            (line(4), true),
            (line(10), true),
            (line(0), false),
            ("ERROR: No matching distribution found".to_owned(), false),
        ] {
            assert_eq!(is_retry(&line), is_hidden, "{line}");
        }
    }
}
