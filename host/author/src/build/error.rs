//! The error of a build, with advice on how to fix it.

use skillhost_program::exit::Exit;
use skillhost_program::terminal::{self, format_line};

/// An error with its exit code, and advice on how to fix it, one line each.
#[derive(Debug)]
pub(crate) struct BuildError {
    exit: Exit,
    message: String,
    fixes: Vec<String>,
}

impl BuildError {
    /// Creates an error about a mistake in the project.
    pub(super) fn project(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, message)
    }

    /// Creates an error about the machine, such as a missing program.
    pub(super) fn setup(message: impl Into<String>) -> Self {
        Self::new(Exit::Setup, message)
    }

    /// Creates an error about the command line.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            fixes: Vec::new(),
        }
    }

    /// Adds a line of advice.
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fixes.push(fix.into());
        self
    }

    /// Prints the error on stderr, and returns the exit code.
    pub(crate) fn report(self) -> Exit {
        terminal::complain(&self.message);
        for fix in &self.fixes {
            terminal::say(&format_line!("  {fix}"));
        }
        self.exit
    }
}
