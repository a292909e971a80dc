//! The error of a build, and what to do about it.

use skillhost_program::exit::Exit;
use skillhost_program::terminal::{self, format_line};

/// An error, its exit code, and the ways to fix it, one line each.
#[derive(Debug)]
pub(crate) struct Fault {
    exit: Exit,
    message: String,
    fixes: Vec<String>,
}

impl Fault {
    /// Makes the error of a fault in the project.
    pub(super) fn project(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, message)
    }

    /// Makes the error of something that the machine lacks.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(Exit::Setup, message)
    }

    /// Makes the error of a wrong command line.
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

    /// Adds a line on what to do.
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
