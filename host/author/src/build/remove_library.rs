//! `skillhost remove-library`: takes a library out of the project's lock file. No code of a library
//! runs.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use skillhost_skills::text::suggest::{did_you_mean, nearest};

use super::add_library::{read, replace, temporary_folder, write};
use super::project::Project;
use super::requirements;
use super::step::Step;
use super::venv::{self, LOCK};
use super::{BuildError, javascript, npm_lock};
use crate::kit::Language;
use skillhost_program::exit::Exit;
use skillhost_program::terminal::{self, format_line};

/// Take a Python or npm library out of a project's lock file
#[derive(Args)]
pub(crate) struct RemoveLibraryCommand {
    /// Name of the library
    name: String,
    /// Folder of the project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Language of the project, needed if the folder has projects in several languages
    #[arg(long, value_enum)]
    lang: Option<Language>,
}

impl RemoveLibraryCommand {
    pub(crate) fn execute(self) -> Exit {
        match self.remove() {
            Ok(message) => {
                terminal::say(&format_line!("{message}"));
                Exit::Ok
            }
            Err(error) => error.report(),
        }
    }

    /// Removes the library. Returns a message about it.
    fn remove(&self) -> Result<String, BuildError> {
        let name = self.name.trim();
        let project = Project::open(&self.dir, self.lang)?;
        let _lock = project.lock()?;
        match project.language {
            Language::Python => remove_python(&project, name),
            Language::JavaScript => remove_npm(&project, name),
            Language::Rust => Err(BuildError::usage(
                "`remove-library` does not manage the crates of a Rust project",
            )
            .fix(format!("use `cargo remove {name}`"))),
            Language::C => Err(BuildError::usage(
                "`remove-library` does not manage the libraries of a C project",
            )
            .fix("delete the library's files in `src`")),
        }
    }
}

fn remove_python(project: &Project, name: &str) -> Result<String, BuildError> {
    let lock = project.text(LOCK)?;
    let text = without_requirement(&lock, name)?;
    replace(&project.folder.join(LOCK), &text)?;
    Ok(format!(
        "removed `{name}` from `{LOCK}`; packages that only it needs stay pinned until you remove \
         them too"
    ))
}

/// Returns the text of a requirements file without a library.
fn without_requirement(lock: &str, name: &str) -> Result<String, BuildError> {
    let requirements = venv::parse_lock(lock)?;
    let wanted = requirements::normalize_name(name);
    let libraries: Vec<_> = requirements
        .iter()
        .filter(|requirement| !requirement.is_compiler())
        .collect();
    match libraries.iter().find(|library| library.name == wanted) {
        Some(library) => Ok(lock.replacen(library.source, "", 1)),
        None => {
            let names = libraries.iter().map(|library| library.name.as_str());
            Err(unknown_library(LOCK, name, names))
        }
    }
}

fn remove_npm(project: &Project, name: &str) -> Result<String, BuildError> {
    const FILES: [&str; 2] = ["package-lock.json", "package.json"];
    let manifest = project.text("package.json")?;
    check_dependency(&manifest, name)?;
    let folder = temporary_folder()?;
    let copy = |name: &str| folder.path().join(name);
    for file in FILES {
        write(&copy(file), &project.text(file)?)?;
    }
    npm_lock::restrict_to_registry(folder.path())?;
    let mut command = javascript::npm(&project.programs, "uninstall", folder.path())?;
    command
        .args(["--package-lock-only", "--omit-lockfile-registry-resolved"])
        .arg(name);
    let mut step = Step::new("`npm uninstall --package-lock-only`", command);
    step.is_noise = javascript::is_npm_noise;
    step.run()?;
    npm_lock::restrict_to_registry(folder.path())?;
    for file in FILES {
        replace(&project.folder.join(file), &read(&copy(file))?)?;
    }
    Ok(format!(
        "removed `{name}` and packages that only it needs from `package-lock.json`"
    ))
}

/// Returns an error unless a `package.json` has this library.
///
/// Guards against: a name that npm reads as an option or a path.
fn check_dependency(manifest: &str, name: &str) -> Result<(), BuildError> {
    let manifest: Value = serde_json::from_str(manifest).unwrap_or_default();
    let libraries = manifest["dependencies"].as_object();
    let mut names = libraries
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str());
    if npm_lock::is_name(name) && names.clone().any(|other| other == name) {
        return Ok(());
    }
    Err(unknown_library("package.json", name, &mut names))
}

/// Returns the error for a library that a file does not have.
fn unknown_library<'a>(file: &str, name: &str, names: impl Iterator<Item = &'a str>) -> BuildError {
    let names: Vec<&str> = names.collect();
    let similar = did_you_mean(nearest(name, names.iter().copied()), '`');
    let error = BuildError::usage(format!("`{file}` has no library `{name}`{similar}"));
    if names.is_empty() {
        error.fix("it has no libraries")
    } else {
        error.fix(format!("it has {}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK_TEXT: &str = "componentize-py==0.25.1 \\\n    --hash=sha256:00\n# Text\n\
                             PyYAML==6.0.3 \\\n    --hash=sha256:01\ntwo==1.0 --hash=sha256:02\n";

    #[test]
    fn removes_only_the_lines_of_the_library() {
        for name in ["pyyaml", "PyYAML"] {
            let text = without_requirement(LOCK_TEXT, name).ok().unwrap();
            let expected = LOCK_TEXT.replace("PyYAML==6.0.3 \\\n    --hash=sha256:01\n", "");
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn refuses_unknown_libraries_and_compilers() {
        for (name, words) in [
            ("pyaml", "did you mean `pyyaml`?"),
            ("componentize-py", "has no library `componentize-py`"),
            ("zzz", "it has pyyaml, two"),
        ] {
            let error = without_requirement(LOCK_TEXT, name).unwrap_err();
            assert!(format!("{error:?}").contains(words), "{error:?}");
        }
        let manifest = "{\"dependencies\": {\"marked\": \"1.0.0\"}}";
        assert!(check_dependency(manifest, "marked").is_ok());
        for name in ["market", "--global", "../x", ""] {
            assert!(check_dependency(manifest, name).is_err(), "{name}");
        }
    }
}
