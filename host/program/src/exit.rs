//! The exit codes of both programs.

use std::process::ExitCode;

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The verb succeeded.
    Ok = 0,
    /// The tool answered with a failure, or its answer lacks files that `--output-dir` should get;
    /// `check` or `test` found an error; or a project or component is invalid.
    Failure = 1,
    /// The command line or the tool's arguments are wrong, or `respond` could not answer a
    /// message.
    Usage = 2,
    /// The host stopped the tool, because it reached a limit or trapped.
    Stopped = 3,
    /// The configuration, a folder or a component cannot be used, or a file cannot be written.
    Setup = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
