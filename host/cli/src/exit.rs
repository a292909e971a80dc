//! The exit codes, all of them.

use std::process::ExitCode;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It worked.
    Ok = 0,
    /// The tool answered with a failure; `check` found an error.
    Failure = 1,
    /// Usage, or arguments that the tool's schema refuses; `respond` could not
    /// answer a message.
    Usage = 2,
    /// The host stopped the tool: a limit, a trap.
    Stopped = 3,
    /// Configuration or loading failed.
    Setup = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
