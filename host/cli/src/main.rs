//! The command line: parses it, runs a verb, prints the error, and sets the exit
//! code. Each verb is in the file of its name.

mod audit;
mod build;
mod call;
mod check;
mod dev;
mod exit;
mod grants;
mod inspect;
mod kit;
mod log;
mod new;
mod options;
mod panic;
mod prompt;
mod respond;
mod serve;
mod skills;
mod suggest;
mod terminal;
mod test;
mod tools;
mod trace;

use std::env;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit};
use skillhost::Line;

use exit::Exit;
use options::CommonOptions;

/// Run agent skill tools as sandboxed WebAssembly components.
#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true)]
struct CommandLine {
    #[command(flatten)]
    options: CommonOptions,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Call(call::CallCommand),
    Tools(tools::ToolsCommand),
    Respond(respond::RespondCommand),
    Skills(skills::SkillsCommand),
    Prompt(prompt::PromptCommand),
    Check(check::CheckCommand),
    Grants(grants::GrantsCommand),
    Inspect(inspect::InspectCommand),
    New(new::NewCommand),
    Build(build::BuildCommand),
    Dev(dev::DevCommand),
    AddLibrary(build::AddLibraryCommand),
    Test(test::TestCommand),
    Serve(serve::ServeCommand),
    Audit(audit::AuditCommand),
}

fn main() -> ExitCode {
    panic::install_hook();
    let first = env::args_os().nth(1).unwrap_or_default();
    if first == skillhost::COMPILE_ARGUMENT {
        return child_task(skillhost::compile_component());
    }
    if first == skillhost_identity::FETCH_ARGUMENT {
        return child_task(skillhost_identity::fetch_keys());
    }
    if first == trace::LOCATE_ARGUMENT {
        return child_task(trace::answer_locations());
    }
    let arguments = match CommandLine::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // An agent may have chosen the words, so the error quotes them escaped.
            let words = env::args_os().map(|word| Line::new(word.to_string_lossy()).to_string());
            let mut error = CommandLine::try_parse_from(words).err().unwrap_or(error);
            suggest::add_tip(&mut error);
            // Help goes to stdout and is no error.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Ok
            }
            .into();
        }
    };
    raise_descriptor_limit();
    let mut runtime = match arguments.verb {
        // These two run calls in parallel.
        Verb::Respond(_) | Verb::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    if matches!(arguments.verb, Verb::Serve(_)) {
        // A call may keep one of its threads for a turn.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        runtime.enable_io().worker_threads(processors.max(2));
    }
    let runtime = match runtime.enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::complain(format_args!("cannot start: {error}"));
            return Exit::Setup.into();
        }
    };
    let result = runtime.block_on(async {
        match arguments.verb {
            Verb::Call(call) => call.execute(arguments.options).await,
            Verb::Tools(tools) => tools.execute(arguments.options).await,
            Verb::Respond(respond) => respond.execute(arguments.options).await,
            Verb::Skills(skills) => skills.execute(arguments.options),
            Verb::Prompt(prompt) => prompt.execute(arguments.options),
            Verb::Check(check) => check.execute(arguments.options).await,
            Verb::Grants(grants) => grants.execute(arguments.options).await,
            Verb::Inspect(inspect) => inspect.execute().await,
            Verb::New(new) => new.execute(),
            Verb::Build(build) => build.execute().await,
            Verb::Dev(dev) => dev.execute().await,
            Verb::AddLibrary(library) => Ok(library.execute()),
            Verb::Test(test) => test.execute(arguments.options).await,
            Verb::Serve(serve) => serve.execute(arguments.options).await,
            Verb::Audit(audit) => audit.execute(),
        }
    });
    // Do not wait for a thread that reads a terminal or compiles.
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal::complain(format_args!("{error:#}"));
            Exit::Setup.into()
        }
    }
}

/// Raises the limit of file descriptors to its maximum, because each call needs
/// some. The usual limit is low for programs that use `select`.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If this fails, calls have fewer descriptors.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// Ends a process that another one of this program started for a task.
fn child_task(result: anyhow::Result<()>) -> ExitCode {
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
