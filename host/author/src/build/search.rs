//! Finds the programs of a build: on the PATH, outside the project. `step.rs` runs them.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};

use super::BuildError;

/// The folders in which a build, and each command that it starts, finds programs.
///
/// Guards against: a `node` in the project, if the PATH holds `.` or the project's
/// `node_modules/.bin`.
pub(super) struct SearchPath {
    project: PathBuf,
    folders: Vec<PathBuf>,
}

impl SearchPath {
    /// Creates a search path from the absolute folders of the PATH that are outside `project`,
    /// a path without symlinks.
    pub(super) fn outside(project: &Path) -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path)
            .filter(|folder| folder.is_absolute() && is_outside(folder, project))
            .collect();
        Self {
            project: project.to_owned(),
            folders,
        }
    }

    /// Finds a program.
    pub(super) fn find(&self, program: &str) -> Result<PathBuf, BuildError> {
        let mut files = self.folders.iter().map(|folder| folder.join(program));
        let program_file = files.find(|file| {
            access(file, Access::EXEC_OK).is_ok()
                && file.is_file()
                && is_outside(file, &self.project)
        });
        program_file.ok_or_else(|| {
            BuildError::setup(format!(
                "there is no `{program}` on the PATH outside the project"
            ))
        })
    }

    /// Returns a command that finds its own programs in the same folders.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        match env::join_paths(&self.folders) {
            Ok(path) if !path.is_empty() => command.env("PATH", path),
            // An empty PATH would mean the current folder.
            _ => command.env_remove("PATH"),
        };
        command
    }
}

fn is_outside(path: &Path, project: &Path) -> bool {
    path.canonicalize()
        .is_ok_and(|real| !real.starts_with(project))
}
