//! The verbs of `skillhost-author`. It is a separate program, so that a server contains no compiler
//! front ends.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, anyhow};
use clap::Args;
use skillhost_program::exit::Exit;
use skillhost_skills::search_path::SearchPath;

const PROGRAM: &str = "skillhost-author";

/// The arguments of a verb. `skillhost-author` parses them.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct AuthorCommand {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

/// Replaces this process with `skillhost-author`, with the same command line. Looks for it beside
/// this program, then in the absolute folders on the PATH.
///
/// # Errors
///
/// Fails if the program is not installed or cannot be run.
pub(crate) fn run() -> anyhow::Result<Exit> {
    let beside = env::current_exe()?.with_file_name(PROGRAM);
    let program = if beside.is_file() {
        Some(beside)
    } else {
        SearchPath::from_environment().find(PROGRAM).next()
    };
    let program = program.ok_or_else(|| {
        anyhow!(
            "this command is part of `{PROGRAM}`, which is neither beside skillhost nor on the \
             PATH; in a checkout, `cargo install --locked --path host/author` installs it"
        )
    })?;
    let mut command = Command::new(&program);
    // With this name as `argv[0]`, its messages show the command that the user typed.
    let error = command
        .arg0("skillhost")
        .args(env::args_os().skip(1))
        .exec();
    Err(error).with_context(|| format!("cannot run `{}`", program.display()))
}
