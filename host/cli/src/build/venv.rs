//! Installs compilers from Python's registry into a project's environment, with the
//! hashes of `requirements.txt`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Fault;
use super::environment::{Environment, Recipe};
use super::project::Project;
use super::search::SearchPath;
use super::step::{self, Step};

/// The oldest Python that the compilers run on.
const OLDEST: (u32, u32) = (3, 10);
const LOCK: &str = "requirements.txt";
const PYTHON: &str = "bin/python";

/// A virtual environment of Python with a compiler in it.
pub(super) struct Venv<'a> {
    pub(super) folder: PathBuf,
    programs: &'a SearchPath,
    _environment: Environment,
}

impl<'a> Venv<'a> {
    /// Opens the one of a project, and makes it if there is none.
    pub(super) fn open(project: &'a Project) -> Result<Self, Fault> {
        let recipe = Recipe {
            kind: "python",
            locks: &[LOCK],
            marker: &format!("venv/{PYTHON}"),
        };
        let environment = Environment::open(project, &recipe, |folder| {
            install(&project.programs, folder, &folder.join("venv"))
        })?;
        Ok(Self {
            folder: environment.folder.join("venv"),
            programs: &project.programs,
            _environment: environment,
        })
    }

    /// Returns a command that runs its Python.
    pub(super) fn python(&self) -> Command {
        isolated(self.programs, &self.folder.join(PYTHON))
    }
}

fn install(programs: &SearchPath, environment: &Path, venv: &Path) -> Result<(), Fault> {
    let locked = fs::read_to_string(environment.join(LOCK)).unwrap_or_default();
    if let Some(line) = beside_registry(&locked) {
        return Err(Fault::project(format!(
            "`{LOCK}` may name only packages of the registry, by version and hashes: `{line}`"
        ))
        .fix("write it with `pip-compile --generate-hashes`"));
    }
    let mut command = isolated(programs, &system(programs)?);
    command
        .args(["-m", "venv", "--clear"])
        .arg(venv)
        .current_dir(environment);
    Step::new("`python3 -m venv`", command)
        .run()
        .map_err(|fault| {
            fault
                .fix("Debian and Ubuntu package that module separately: `apt install python3-venv`")
        })?;
    let mut command = isolated(programs, &venv.join(PYTHON));
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
            .fix("every package in `requirements.txt` needs its version and hashes")
    })?;
    Ok(())
}

/// Finds a line that names anything but a package of the registry: a path, a URL, an
/// option. Guards against: a compiler that lies in the project.
fn beside_registry(locked: &str) -> Option<String> {
    let lines = locked.replace("\\\n", " ").replace("\\\r\n", " ");
    let lines = lines.lines().map(|line| match line.split_once(" #") {
        Some((line, _comment)) => line.trim(),
        None => line.trim(),
    });
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_plain = |line: &str| {
        let mut words = line.split_whitespace();
        line.contains("==")
            && !line.contains(['@', '/', '\\', '$', '%'])
            && words.all(|word| !word.starts_with('-') || word.starts_with("--hash=sha256:"))
    };
    lines.find(|line| !is_plain(line)).map(str::to_owned)
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
    fn accepts_only_packages_of_the_registry() {
        let hash = "--hash=sha256:0000";
        for plain in [
            "",
            "# a comment\n",
            &format!("one==1.0 \\\n    {hash} \\\n    {hash}\n    # via two\n"),
            &format!("one[more]==1.0 ; python_version < \"3.12\" \\\n    {hash}\n"),
        ] {
            assert_eq!(beside_registry(plain), None, "{plain}");
        }
        for line in [
            "one @ file://${PWD}/one.whl --hash=sha256:0000",
            "./one.whl --hash=sha256:0000",
            "one.whl",
            "-r other.txt",
            "--index-url https://registry.example/simple",
            "--no-binary :all:",
            "one==1.0 --hash=sha256:0000 --config-settings=x",
            "one==${VERSION}",
        ] {
            let text = format!("two==2.0 {hash}\n{line}\n");
            assert_eq!(beside_registry(&text).as_deref(), Some(line));
        }
    }
}
