//! The exit codes.

use std::process::ExitCode;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The verb did what was asked.
    Ok = 0,
    /// The tool answered with a failure, or its answer had no room for all files of
    /// `--output-dir`; `check` or `test` found an error; or a project or a component is
    /// faulty.
    Failure = 1,
    /// The command line or the tool's arguments are wrong, or `respond` could not
    /// answer a message.
    Usage = 2,
    /// The host stopped the tool, at a limit or a trap.
    Stopped = 3,
    /// The configuration, a folder or a component cannot be used, or a file cannot be
    /// written.
    Setup = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
