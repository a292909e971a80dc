//! Finds the programs of a build: on the PATH, outside the project. `step.rs` runs them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_skills::search_path;

use super::BuildError;

/// The folders in which a build, and each command that it starts, finds programs.
///
/// Guards against: a `node` in the project, if the PATH has the project's `node_modules/.bin`.
pub(super) struct SearchPath {
    project: PathBuf,
    path: search_path::SearchPath,
}

impl SearchPath {
    /// Creates a search path from the absolute folders on the PATH that are outside `project`.
    /// The path `project` must have no symlinks.
    pub(super) fn outside(project: &Path) -> Self {
        let path = search_path::SearchPath::from_environment();
        Self {
            project: project.to_owned(),
            path: path.only(|folder| is_outside(folder, project)),
        }
    }

    /// Finds a program.
    pub(super) fn find(&self, program: &str) -> Result<PathBuf, BuildError> {
        let mut files = self.path.find(program);
        let program_file = files.find(|file| is_outside(file, &self.project));
        program_file.ok_or_else(|| {
            BuildError::setup(format!(
                "there is no `{program}` on the PATH outside the project"
            ))
        })
    }

    /// Returns a command that searches the same folders for the programs that it starts.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.path.set_for(&mut command);
        command
    }
}

fn is_outside(path: &Path, project: &Path) -> bool {
    path.canonicalize()
        .is_ok_and(|real| !real.starts_with(project))
}
