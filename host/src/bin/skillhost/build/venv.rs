//! Compilers that come from Python's registry: installed into a project's
//! environment, with the hashes of `requirements.txt`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Fault;
use super::environment::{Environment, Recipe};
use super::project::Project;
use super::step::{self, Step};

/// Oldest Python that the compilers run with.
const OLDEST: (u32, u32) = (3, 10);
const LOCK: &str = "requirements.txt";
const PYTHON: &str = "bin/python";

/// A virtual environment of Python's with a compiler in it.
pub(super) struct Venv {
    pub(super) folder: PathBuf,
    _environment: Environment,
}

impl Venv {
    /// Opens that of a project. It is made if it is not there.
    pub(super) fn open(project: &Project) -> Result<Self, Fault> {
        let recipe = Recipe {
            kind: "python",
            locks: &[LOCK],
            brings: &format!("venv/{PYTHON}"),
        };
        let environment = Environment::open(project, &recipe, |folder| {
            install(folder, &folder.join("venv"))
        })?;
        Ok(Self {
            folder: environment.folder.join("venv"),
            _environment: environment,
        })
    }

    /// Its Python, to be started.
    pub(super) fn python(&self) -> Command {
        isolated(&self.folder.join(PYTHON))
    }
}

fn install(environment: &Path, venv: &Path) -> Result<(), Fault> {
    let mut command = isolated(&system()?);
    command
        .args(["-m", "venv", "--clear"])
        .arg(venv)
        .current_dir(environment);
    Step::new("`python3 -m venv`", command)
        .run()
        .map_err(|fault| {
            fault.fix("Debian and Ubuntu have that module apart: `apt install python3-venv`")
        })?;
    let mut command = isolated(&venv.join(PYTHON));
    command
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args(["--require-hashes", "--only-binary", ":all:", "-r", LOCK])
        .current_dir(environment);
    Step::new("`pip install`", command).run().map_err(|fault| {
        fault
            .fix("it needs the Python registry, and wheels for this machine")
            .fix(
                "a package that was added to `requirements.txt` needs its version and hashes there",
            )
    })?;
    Ok(())
}

/// A Python that imports no module from the folder that it starts in.
/// Meets: a `venv.py` or `pip.py` in a project.
fn isolated(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg("-I");
    command
}

/// The machine's Python, if it is new enough.
fn system() -> Result<PathBuf, Fault> {
    let how = "get it from https://www.python.org/downloads, or as your system's packages \
               `python3` and `python3-venv`";
    let Some(python) = step::find("python3") else {
        return Err(Fault::missing(format!(
            "there is no `python3` on the PATH; Python {}.{} or newer is needed",
            OLDEST.0, OLDEST.1
        ))
        .fix(how));
    };
    let ask = "import sys; print(sys.version_info[0], sys.version_info[1])";
    let mut command = isolated(&python);
    // A version manager looks for its settings in the folder that it starts in.
    command.args(["-c", ask]).current_dir("/");
    let version = step::ask(&mut command);
    let version = version.as_deref().and_then(|text| {
        let (major, minor) = text.split_once(' ')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    match version {
        Some(version) if version >= OLDEST => Ok(python),
        Some((major, minor)) => Err(Fault::missing(format!(
            "`{}` is Python {major}.{minor}, and {}.{} or newer is needed",
            python.display(),
            OLDEST.0,
            OLDEST.1
        ))
        .fix(how)),
        None => Err(Fault::missing(format!("`{}` does not run", python.display())).fix(how)),
    }
}
