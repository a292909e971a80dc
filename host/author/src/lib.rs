//! The program `skillhost-author`: makes, builds and tests tool projects. `skillhost` runs it
//! for verbs that `skillhost` itself does not have.

// Shared modules. A module uses only modules listed before it.

mod trace;

mod kit;

mod build;

// The verbs that are not in `build`.

mod dev;
mod new;
mod test;
// After `test`, with which it finds the built component.
mod push;

use std::convert::identity;
use std::env;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::{panic, process, terminal};

/// Make, build and test tools for skillhost.
#[derive(Parser)]
#[command(
    name = "skillhost-author",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
struct CommandLine {
    #[command(flatten)]
    options: CommonOptions,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    New(new::NewCommand),
    Build(build::BuildCommand),
    Dev(dev::DevCommand),
    AddLibrary(build::AddLibraryCommand),
    RemoveLibrary(build::RemoveLibraryCommand),
    Test(test::TestCommand),
    Push(push::PushCommand),
}

/// Returns the definition of the command line, for the manual.
#[cfg(feature = "manual")]
pub fn command() -> clap::Command {
    <CommandLine as clap::CommandFactory>::command()
}

/// Runs the program.
pub fn run() -> ExitCode {
    skillhost_helper::reset_signals();
    skillhost_confine::record_inherited_descriptors();
    skillhost_helper::restore_process_name();
    panic::install_hook();
    let first = env::args_os().nth(1).unwrap_or_default();
    if let Some(exit) = process::compile_for_parent(&first) {
        return exit;
    }
    if first == trace::LOCATE_ARGUMENT {
        let served = trace::serve_locations(skillhost_confine::confine_child);
        return process::end_as_child(served);
    }
    let command_line: CommandLine = match process::parse(env::args_os().collect(), identity, |_| {})
    {
        Ok(command_line) => command_line,
        Err(exit) => return exit.into(),
    };
    process::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::complain(format_args!("cannot start: {error}"));
            return Exit::Setup.into();
        }
    };
    let result = runtime.block_on(command_line.verb.execute(command_line.options));
    // Do not wait for threads that compile.
    runtime.shutdown_background();
    process::end(result)
}

impl Verb {
    async fn execute(self, options: CommonOptions) -> anyhow::Result<Exit> {
        match self {
            Self::New(new) => new.execute(),
            Self::Build(build) => build.execute().await,
            Self::Dev(dev) => dev.execute().await,
            Self::AddLibrary(library) => Ok(library.execute()),
            Self::RemoveLibrary(library) => Ok(library.execute()),
            Self::Test(test) => test.execute(options).await,
            Self::Push(push) => push.execute(options).await,
        }
    }
}
