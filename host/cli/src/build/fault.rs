//! Why a project was not built: what is wrong, and what to do.

use crate::exit::Exit;
use crate::terminal::{self, format_line};

/// What is wrong, whose it is, and what to do, a line each.
#[derive(Debug)]
pub(crate) struct Fault {
    exit: Exit,
    what: String,
    fixes: Vec<String>,
}

impl Fault {
    /// Something in the project.
    pub(super) fn project(what: impl Into<String>) -> Self {
        Self::new(Exit::Failure, what)
    }

    /// Something that the machine does not have.
    pub(super) fn missing(what: impl Into<String>) -> Self {
        Self::new(Exit::Setup, what)
    }

    /// What was asked for makes no sense.
    pub(super) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            fixes: Vec::new(),
        }
    }

    /// Adds a line on what to do.
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fixes.push(fix.into());
        self
    }

    /// Says it on stderr, and gives the exit code.
    pub(crate) fn tell(self) -> Exit {
        terminal::complain(&self.what);
        for fix in &self.fixes {
            terminal::say(&format_line!("  {fix}"));
        }
        self.exit
    }
}
