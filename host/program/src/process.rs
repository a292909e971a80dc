//! How both programs begin and end: their command lines, their descriptors, and the processes
//! that they start of themselves.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit};
use skillhost::Line;
use skillhost::internal::compile_component_confined;

use crate::exit::Exit;
use crate::{options, terminal};

/// Parses a command line. Prints the help or the error if there is nothing to run; `tip` may
/// add a tip to an error.
///
/// # Errors
///
/// The exit code of a process that has nothing to run, or that finds a relative path in
/// `SKILLHOST_CACHE`: compiled code would come from the author of the current folder.
pub fn parse<T: Parser>(
    words: Vec<OsString>,
    tip: impl FnOnce(&mut clap::Error),
) -> Result<T, Exit> {
    let parsed = T::try_parse_from(&words).map_err(|error| {
        // An agent may have chosen the words, so the error quotes them escaped.
        let words = words.iter();
        let words = words.map(|word| Line::new(word.to_string_lossy()).to_string());
        let mut error = T::try_parse_from(words).err().unwrap_or(error);
        tip(&mut error);
        // Help goes to stdout and is no error.
        let _ = error.print();
        if error.use_stderr() {
            Exit::Usage
        } else {
            Exit::Ok
        }
    })?;
    if options::cache_folder().is_some_and(|folder| folder.is_relative()) {
        terminal::complain("`SKILLHOST_CACHE` must be `off` or an absolute path");
        return Err(Exit::Setup);
    }
    Ok(parsed)
}

/// Raises the limit of file descriptors to its maximum, because each call needs
/// some. The usual limit is low for programs that use `select`.
pub fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If this fails, calls have fewer descriptors.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// Compiles a component and ends, if the first argument says that another process of this
/// program started this one for that.
pub fn compile_for_parent(first: &OsStr) -> Option<ExitCode> {
    let is_it = first == skillhost::COMPILE_ARGUMENT;
    is_it.then(|| end_child(compile_component_confined(skillhost_confine::confine_child)))
}

/// Ends a process that another one of this program started for a task.
pub fn end_child(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => Exit::Ok,
        Err(error) => {
            // That one reads this and names the component.
            terminal::say(&terminal::format_line!("{error:#}"));
            Exit::Failure
        }
    }
    .into()
}

/// Ends the program after a verb.
pub fn end(result: anyhow::Result<Exit>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal::complain(format_args!("{error:#}"));
            Exit::Setup.into()
        }
    }
}
