//! The command line: parses it, runs a verb, prints the error, and sets the exit
//! code. Each verb is in the file of its name.

// What verbs have in common, lowest first: a module uses those above it, and no other.
// `cargo xtask layers` holds it.

mod terminal;

mod exit;

mod log;

mod panic;

mod suggest;

mod trace;

mod options;

mod kit;

mod inspect;

mod build;

mod wall;

mod warm;

// The other verbs.

mod audit;
mod call;
mod check;
mod dev;
mod grants;
mod new;
mod prompt;
mod respond;
mod serve;
mod skills;
mod test;
mod tools;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit};
use skillhost::internal::{compile_component_confined, is_skill_md, processors};
use skillhost::{Line, Observer};

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
    Warm(warm::WarmCommand),
    Audit(audit::AuditCommand),
}

/// Runs the program. `observer` learns how every call over stdio ends; the program
/// `skillhost` has none.
pub fn run(observer: Option<Arc<dyn Observer>>) -> ExitCode {
    skillhost_confine::note_inherited();
    panic::install_hook();
    let first = env::args_os().nth(1).unwrap_or_default();
    if first == skillhost::COMPILE_ARGUMENT {
        return child_task(compile_component_confined(skillhost_confine::confine_child));
    }
    if first == skillhost_identity::FETCH_ARGUMENT {
        skillhost_confine::ignore_end_of_server();
        // It starts before the wall of the server, which has them too until then.
        skillhost_confine::close_inherited();
        let confined = skillhost_confine::confine_network();
        return child_task(confined.and_then(|()| skillhost_identity::fetch_keys()));
    }
    if first == skillhost_confine::broker::ARGUMENT {
        skillhost_confine::ignore_end_of_server();
        return child_task(skillhost_confine::broker::run(is_skill_md));
    }
    if first == trace::LOCATE_ARGUMENT {
        return child_task(trace::answer_locations(skillhost_confine::confine_child));
    }
    if first == warm::START_SUCCESSOR {
        return child_task(warm::start_successor());
    }
    let is_successor = first == warm::SUCCESSOR;
    if is_successor && !warm::server_ended_early() {
        return Exit::Ok.into();
    }
    // A successor's own first argument is not the server's.
    let skipped = if is_successor { 1..2 } else { 1..1 };
    let words = || {
        let words = env::args_os().enumerate();
        words.filter_map(|(at, word)| (!skipped.contains(&at)).then_some(word))
    };
    let mut arguments = match CommandLine::try_parse_from(words()) {
        Ok(arguments) => arguments,
        Err(error) => {
            // An agent may have chosen the words, so the error quotes them escaped.
            let words = words().map(|word| Line::new(word.to_string_lossy()).to_string());
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
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal::complain(format_args!("{error:#}"));
            Exit::Setup.into()
        }
    }
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
    async fn execute(self, options: CommonOptions) -> anyhow::Result<Exit> {
        match self {
            Self::Tools(tools) => tools.execute(options).await,
            Self::Respond(respond) => respond.execute(options).await,
            Self::Skills(skills) => skills.execute(options),
            Self::Prompt(prompt) => prompt.execute(options),
            Self::Check(check) => check.execute(options).await,
            Self::Grants(grants) => grants.execute(options).await,
            Self::Inspect(inspect) => inspect.execute().await,
            Self::New(new) => new.execute(),
            Self::Build(build) => build.execute().await,
            Self::Dev(dev) => dev.execute().await,
            Self::AddLibrary(library) => Ok(library.execute()),
            Self::Test(test) => test.execute(options).await,
            Self::Audit(audit) => audit.execute(),
            Self::Call(_) | Self::Serve(_) | Self::Warm(_) => {
                unreachable!("`prepare` has made a task of it")
            }
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
