//! Compilers that come from Python's registry: installed into `build/venv`,
//! with the hashes of `requirements.txt`, once for each state of that file.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::Fault;
use super::project::Project;
use super::step::{self, Step};
use crate::terminal::{self, format_line};

/// Oldest Python that the compilers run with.
const OLDEST: (u32, u32) = (3, 10);

/// The Python of a project's environment, which is made if it is not there.
pub(super) fn python(project: &Project) -> Result<PathBuf, Fault> {
    let wanted = project.text("requirements.txt")?;
    let folder = project.scratch("")?.join("venv");
    let python = folder.join("bin/python");
    let installed = folder.join("installed");
    if python.exists() && fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    let system = system()?;
    terminal::say(&format_line!(
        "installing what `requirements.txt` names into `{}`; this happens once",
        folder.display()
    ));
    let mut command = Command::new(system);
    command.args(["-m", "venv", "--clear"]).arg(&folder);
    Step::new("`python3 -m venv`", command)
        .run()
        .map_err(|fault| {
            fault.fix("Debian and Ubuntu have that module apart: `apt install python3-venv`")
        })?;
    let mut command = Command::new(&python);
    command
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args([
            "--require-hashes",
            "--only-binary",
            ":all:",
            "-r",
            "requirements.txt",
        ])
        .current_dir(&project.folder);
    Step::new("`pip install`", command).run().map_err(|fault| {
        fault
            .fix("it needs the Python registry, and wheels for this machine")
            .fix(
                "a package that was added to `requirements.txt` needs its version and hashes there",
            )
    })?;
    fs::write(&installed, wanted).map_err(|error| {
        Fault::missing(format!("cannot write `{}`: {error}", installed.display()))
    })?;
    Ok(python)
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
    let version = step::ask(Command::new(&python).args(["-c", ask]));
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
