//! The folders in which the host looks for programs: the absolute folders on the PATH.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};

/// The folders in which the host looks for programs.
///
/// Guards against: a program in the current folder, if the PATH has an empty or relative entry.
#[derive(Debug, Clone)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
}

impl SearchPath {
    /// Returns the absolute folders on this process's PATH.
    pub fn from_environment() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
        Self {
            folders: folders.collect(),
        }
    }

    /// Keeps only the wanted folders.
    #[must_use]
    pub fn only(mut self, is_wanted: impl Fn(&Path) -> bool) -> Self {
        self.folders.retain(|folder| is_wanted(folder));
        self
    }

    /// Returns the executable files of this name, in the order of the folders.
    pub fn find(&self, program: &str) -> impl Iterator<Item = PathBuf> {
        let files = self.folders.iter().map(move |folder| folder.join(program));
        files.filter(|file| access(file, Access::EXEC_OK).is_ok() && file.is_file())
    }

    /// Sets the PATH of a command to these folders.
    pub fn set_for(&self, command: &mut Command) {
        match env::join_paths(&self.folders) {
            Ok(path) if !path.is_empty() => command.env("PATH", path),
            // An empty PATH would mean the current folder.
            _ => command.env_remove("PATH"),
        };
    }
}
