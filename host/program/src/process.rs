//! The start and end of both programs: the command line, the descriptor limit, and the helper
//! processes that run the program itself.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{Command, Parser};
use rustix::process::{Resource, Rlimit};
use skillhost::Line;
use skillhost_sandbox::component::compile::compile_component_confined;

use crate::exit::Exit;
use crate::{options, terminal};

/// Parses a command line. If it is wrong or asks for help, prints the error or the help. `add_help`
/// adds help that takes long to make, and `add_tip` may add a tip to the error.
///
/// # Errors
///
/// Returns the exit code if the error or the help was printed, or if `SKILLHOST_CACHE` is a
/// relative path: the author of the current folder could then choose the compiled code that is
/// loaded.
pub fn parse<T: Parser>(
    words: Vec<OsString>,
    add_help: impl FnOnce(Command) -> Command,
    add_tip: impl FnOnce(&mut clap::Error),
) -> Result<T, Exit> {
    let parsed = T::try_parse_from(&words).map_err(|error| {
        // An agent may have chosen the words, so escape them before the error quotes them.
        let escaped = words
            .iter()
            .map(|word| Line::new(word.to_string_lossy()).to_string());
        let command = add_help(T::command());
        let mut error = command.try_get_matches_from(escaped).err().unwrap_or(error);
        add_tip(&mut error);
        // Help goes to stdout, and is not an error.
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

/// Raises the limit on file descriptors to the maximum, because each call needs several. The
/// default limit is low only for programs that use `select`.
pub fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If this fails, fewer calls can run at once.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// Compiles a component and returns the exit code, if the first argument is the one with which this
/// program starts a compiler process. Returns `None` for any other argument.
pub fn compile_for_parent(first: &OsStr) -> Option<ExitCode> {
    (first == skillhost::COMPILE_ARGUMENT)
        .then(|| end_as_child(compile_component_confined(skillhost_confine::confine_child)))
}

/// Returns the exit code of a helper process, and prints its error.
pub fn end_as_child(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => Exit::Ok,
        Err(error) => {
            // The process that started this one reads the error and names the component.
            terminal::say(&terminal::format_line!("{error:#}"));
            Exit::Failure
        }
    }
    .into()
}

/// Returns the exit code of a verb, and prints its error.
pub fn end(result: anyhow::Result<Exit>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal::complain(format_args!("{error:#}"));
            Exit::Setup.into()
        }
    }
}
