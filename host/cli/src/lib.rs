//! The command line: parses it, runs a verb, prints the error, and sets the exit
//! code. Each verb is in the file of its name.

// What verbs have in common, lowest first: a module uses those above it, and no other.
// `cargo xtask layers` holds it.

mod suggest;

mod wall;

mod warm;

// The verbs.

mod audit;
mod author;
mod call;
mod check;
mod grants;
mod prompt;
mod respond;
mod serve;
mod skills;
mod tools;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use skillhost::Observer;
use skillhost::internal::{is_skill_md, processors};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::process::{self, end_child};
use skillhost_program::{inspect, panic, terminal};

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
    /// Create a tool project with a working tool, a skill and cases
    New(author::AuthorCommand),
    /// Build a tool project, and show its component as an operator sees it
    Build(author::AuthorCommand),
    /// Build a project after every change, run its cases, and show what changed
    Dev(author::AuthorCommand),
    /// Pin a library of Python or npm in a project's lock, with all that it needs
    AddLibrary(author::AuthorCommand),
    /// Check what every tool component must do, and run its author's cases
    Test(author::AuthorCommand),
    Serve(serve::ServeCommand),
    Warm(warm::WarmCommand),
    Audit(audit::AuditCommand),
}

/// Runs the program. `observer` learns how every call over stdio ends; the program
/// `skillhost` has none.
pub fn run(observer: Option<Arc<dyn Observer>>) -> ExitCode {
    skillhost_confine::note_inherited();
    skillhost_confine::ignore_file_size_limit();
    panic::install_hook();
    let first = env::args_os().nth(1).unwrap_or_default();
    if let Some(end) = process::compile_for_parent(&first) {
        return end;
    }
    if first == skillhost_identity::FETCH_ARGUMENT {
        skillhost_confine::ignore_end_of_server();
        // It starts before the wall of the server, which has them too until then.
        skillhost_confine::close_inherited();
        let confined = skillhost_confine::confine_network();
        return end_child(confined.and_then(|()| skillhost_identity::fetch_keys()));
    }
    if first == skillhost_confine::broker::ARGUMENT {
        skillhost_confine::ignore_end_of_server();
        return end_child(skillhost_confine::broker::run(is_skill_md));
    }
    if first == warm::START_SUCCESSOR {
        return end_child(warm::start_successor());
    }
    let is_successor = first == warm::SUCCESSOR;
    if is_successor && !warm::has_work_left() {
        return Exit::Ok.into();
    }
    let mut words: Vec<OsString> = env::args_os().collect();
    if is_successor {
        // This argument is not the server's.
        words.remove(1);
    }
    let mut arguments: CommandLine = match process::parse(words, suggest::add_tip) {
        Ok(arguments) => arguments,
        Err(exit) => return exit.into(),
    };
    if arguments.verb.is_of_author() {
        return process::end(author::run());
    }
    process::raise_descriptor_limit();
    arguments.options.observer = observer;
    if let (true, Verb::Serve(serve)) = (is_successor, &mut arguments.verb) {
        arguments.verb = Verb::Warm(std::mem::take(serve).into_warm());
    }
    let task = match prepare(arguments) {
        Ok(task) => task,
        Err(error) => {
            terminal::complain(format_args!("{error:#}"));
            return Exit::Setup.into();
        }
    };
    // These two run calls in parallel.
    let is_parallel = match &task {
        Task::Serve(_) => true,
        Task::Other(line) => matches!(line.verb, Verb::Respond(_)),
        Task::Call(_) | Task::Warm(_) => false,
    };
    let mut runtime = match is_parallel {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    if matches!(task, Task::Serve(_)) {
        // A call may keep one of its threads for a turn.
        runtime.enable_io().worker_threads(processors().max(2));
    }
    let runtime = match runtime.enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::complain(format_args!("cannot start: {error}"));
            return Exit::Setup.into();
        }
    };
    let result = runtime.block_on(async {
        match task {
            Task::Call(call) => call.execute().await,
            Task::Serve(serve) => serve.execute().await,
            Task::Warm(warm) => warm.execute().await,
            Task::Other(line) => line.verb.execute(line.options).await,
        }
    });
    // Do not wait for a thread that reads a terminal or compiles.
    runtime.shutdown_background();
    process::end(result)
}

/// A verb that is ready to run.
enum Task {
    Call(Box<call::ReadyCall>),
    Serve(Box<serve::ReadyServer>),
    Warm(Box<warm::ReadyWarm>),
    Other(Box<CommandLine>),
}

/// Prepares a verb: `call`, `serve` and `warm` confine this process, which needs to be done
/// before it has other threads.
fn prepare(arguments: CommandLine) -> anyhow::Result<Task> {
    Ok(match arguments.verb {
        Verb::Call(call) => Task::Call(Box::new(call.prepare(arguments.options)?)),
        Verb::Serve(serve) => Task::Serve(Box::new(serve.prepare(arguments.options)?)),
        Verb::Warm(warm) => Task::Warm(Box::new(warm.prepare(arguments.options)?)),
        _ => Task::Other(Box::new(arguments)),
    })
}

impl Verb {
    fn is_of_author(&self) -> bool {
        matches!(
            self,
            Self::New(_) | Self::Build(_) | Self::Dev(_) | Self::AddLibrary(_) | Self::Test(_)
        )
    }

    async fn execute(self, options: CommonOptions) -> anyhow::Result<Exit> {
        match self {
            Self::Tools(tools) => tools.execute(options).await,
            Self::Respond(respond) => respond.execute(options).await,
            Self::Skills(skills) => skills.execute(options),
            Self::Prompt(prompt) => prompt.execute(options),
            Self::Check(check) => check.execute(options).await,
            Self::Grants(grants) => grants.execute(options).await,
            Self::Inspect(inspect) => inspect.execute().await,
            Self::Audit(audit) => audit.execute(),
            Self::Call(_) | Self::Serve(_) | Self::Warm(_) => {
                unreachable!("`prepare` has made a task of it")
            }
            Self::New(_) | Self::Build(_) | Self::Dev(_) | Self::AddLibrary(_) | Self::Test(_) => {
                unreachable!("`run` has started the program of its author")
            }
        }
    }
}
