//! The command line of `skillhost`: parses it, runs a verb, prints the error, and returns the
//! exit code. Each verb has a file with its name.

// Shared modules. A module uses only modules listed before it; `cargo xtask layers` checks this.

mod suggest;

mod help;

mod settings;

mod line_diff;

mod packages;

mod changes;

mod find_packages;

mod process_sandbox;

mod warm;

// The verbs.

// Before `add`, which uses it to find a request.
mod requests;
mod add;
mod audit;
mod author;
mod bundle;
mod call;
mod check;
mod deny;
mod fetch;
mod grants;
mod lock;
mod prompt;
mod remove;
mod respond;
mod rollback;
mod runners;
mod serve;
// After `serve`, which it uses to check options.
mod clients;
mod skills;
mod store;
mod tools;
mod update;
// After `skills`, which it uses to print rows.
mod find;

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _, Parser, Subcommand};
use skillhost::Observer;
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::process::{self, end_as_child};
use skillhost_program::{inspect, panic};
use skillhost_sandbox::engine::processors;
use skillhost_sandbox::tool::audit::start_stderr_thread;

pub use settings::{Confinement, ProcessSettings, Settings};

/// Run agent skill tools as sandboxed WebAssembly components.
#[derive(Parser)]
#[command(
    name = "skillhost",
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
    Call(call::CallCommand),
    Tools(tools::ToolsCommand),
    Respond(respond::RespondCommand),
    Skills(skills::SkillsCommand),
    Find(find::FindCommand),
    Prompt(prompt::PromptCommand),
    Check(check::CheckCommand),
    Grants(grants::GrantsCommand),
    Inspect(inspect::InspectCommand),
    Runners(runners::RunnersCommand),
    Add(add::AddCommand),
    Requests(requests::RequestsCommand),
    Remove(remove::RemoveCommand),
    Update(update::UpdateCommand),
    Rollback(rollback::RollbackCommand),
    Deny(deny::DenyCommand),
    Fetch(fetch::FetchCommand),
    Lock(lock::LockCommand),
    Store(store::StoreCommand),
    Bundle(bundle::BundleCommand),
    /// Create a tool project with a working tool, a skill and cases
    New(author::AuthorCommand),
    /// Build a tool project, and show its component as an operator sees it
    Build(author::AuthorCommand),
    /// Build a project after every change, run its cases, and show what changed
    Dev(author::AuthorCommand),
    /// Pin a Python or npm library and its dependencies in a project's lock file
    AddLibrary(author::AuthorCommand),
    /// Take a Python or npm library out of a project's lock file
    RemoveLibrary(author::AuthorCommand),
    /// Check what every tool component must do, and run its author's cases
    Test(author::AuthorCommand),
    /// Push a component or a skill to a registry, and sign it
    Push(author::AuthorCommand),
    Serve(serve::ServeCommand),
    Clients(clients::ClientsCommand),
    Warm(warm::WarmCommand),
    Audit(audit::AuditCommand),
}

/// Returns the definition of the command line, for the manual.
///
/// The definition has the names of authors' verbs, but not their options.
pub fn command() -> Command {
    CommandLine::command()
}

/// Runs the program, and returns its exit code.
///
/// `observer` is told how every call over stdio ends. The program `skillhost` passes `None`.
pub fn run(observer: Option<Arc<dyn Observer>>) -> ExitCode {
    skillhost_helper::reset_signals();
    skillhost_confine::record_inherited_descriptors();
    skillhost_helper::restore_process_name();
    skillhost_confine::ignore_file_size_signal();
    panic::install_hook();
    let first = env::args_os().nth(1).unwrap_or_default();
    if let Some(exit) = run_as_helper(&first) {
        return exit;
    }
    // A stdio server starts a successor process. If the server ends early, the successor compiles
    // the components that are left.
    let is_successor = first == warm::SUCCESSOR;
    if is_successor && !warm::has_work_left() {
        return Exit::Ok.into();
    }
    let mut words: Vec<OsString> = env::args_os().collect();
    if is_successor {
        // The other arguments are the command line of the server.
        words.remove(1);
    }
    let mut command_line: CommandLine = match process::parse(words, help::add, suggest::add_tip) {
        Ok(command_line) => command_line,
        Err(exit) => return exit.into(),
    };
    if command_line.verb.is_for_authors() {
        return process::end(author::run());
    }
    process::raise_descriptor_limit();
    command_line.options.observer = observer;
    if let (true, Verb::Serve(serve)) = (is_successor, &mut command_line.verb) {
        command_line.verb = Verb::Warm(std::mem::take(serve).into_warm());
    }
    process::end(prepare(command_line).and_then(run_task))
}

/// Runs a helper process if the first argument names one, and returns its exit code.
fn run_as_helper(first: &OsStr) -> Option<ExitCode> {
    if let Some(exit) = process::compile_for_parent(first) {
        return Some(exit);
    }
    let result = if first == skillhost_egress::SUPERVISOR_ARGUMENT {
        skillhost_confine::ignore_termination_signals();
        // The host starts this process before it closes its own inherited descriptors.
        skillhost_confine::close_inherited_descriptors();
        skillhost_egress::supervise(&skillhost_confine::RESOLVER_FILES)
    } else if first == skillhost_egress::SENDER_ARGUMENT {
        skillhost_egress::forbid_core_dumps()
            .and_then(|()| skillhost_helper::end_with_parent())
            .and_then(|()| skillhost_confine::confine_network())
            .and_then(|()| skillhost_egress::send_requests())
    } else if first == skillhost_confine::broker::ARGUMENT {
        skillhost_confine::ignore_termination_signals();
        skillhost_confine::broker::run()
    } else if first == warm::START_SUCCESSOR {
        warm::start_successor()
    } else {
        return None;
    };
    Some(end_as_child(result))
}

/// Runs a prepared verb in a new tokio runtime.
fn run_task(task: Task) -> anyhow::Result<Exit> {
    start_stderr_thread();
    // `serve` and `respond` run calls in parallel.
    let is_parallel = match &task {
        Task::Serve(_) => true,
        Task::Other(command_line) => matches!(command_line.verb, Verb::Respond(_)),
        Task::Call(_) | Task::Warm(_) => false,
    };
    let mut runtime = if is_parallel {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    // Two threads more than processors: serializing a large answer and reading a large file each
    // occupy a thread for many milliseconds, and small requests need the others. Without a number,
    // tokio would read one from the environment.
    runtime.worker_threads(processors() + 2);
    let needs_io = match &task {
        Task::Serve(_) => true,
        Task::Call(call) => call.may_send_requests(),
        // `audit show --follow` waits for signals, and `respond` may send requests.
        Task::Other(command_line) => {
            matches!(command_line.verb, Verb::Audit(_) | Verb::Respond(_))
        }
        Task::Warm(_) => false,
    };
    if needs_io {
        runtime.enable_io();
    }
    let runtime = runtime
        .enable_time()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(async {
        match task {
            Task::Call(call) => call.execute().await,
            Task::Serve(serve) => serve.execute().await,
            Task::Warm(warm) => warm.execute().await,
            Task::Other(command_line) => command_line.verb.execute(command_line.options).await,
        }
    });
    // Do not wait for a thread that reads a terminal or compiles.
    runtime.shutdown_background();
    result
}

/// A verb that is ready to run.
enum Task {
    Call(Box<call::ReadyCall>),
    Serve(Box<serve::ReadyServer>),
    Warm(Box<warm::ReadyWarm>),
    Other(Box<CommandLine>),
}

/// Prepares a verb. `call`, `serve` and `warm` confine this process here, while it has one thread.
fn prepare(command_line: CommandLine) -> anyhow::Result<Task> {
    Ok(match command_line.verb {
        Verb::Call(call) => Task::Call(Box::new(call.prepare(command_line.options)?)),
        Verb::Serve(serve) => Task::Serve(Box::new(serve.prepare(command_line.options)?)),
        Verb::Warm(warm) => Task::Warm(Box::new(warm.prepare(command_line.options)?)),
        _ => Task::Other(Box::new(command_line)),
    })
}

impl Verb {
    /// Checks whether `skillhost-author` runs this verb.
    fn is_for_authors(&self) -> bool {
        matches!(
            self,
            Self::New(_)
                | Self::Build(_)
                | Self::Dev(_)
                | Self::AddLibrary(_)
                | Self::RemoveLibrary(_)
                | Self::Test(_)
                | Self::Push(_)
        )
    }

    async fn execute(self, options: CommonOptions) -> anyhow::Result<Exit> {
        match self {
            Self::Tools(tools) => tools.execute(options).await,
            Self::Respond(respond) => respond.execute(options).await,
            Self::Skills(skills) => skills.execute(options),
            Self::Find(find) => find.execute(options).await,
            Self::Prompt(prompt) => prompt.execute(options),
            Self::Check(check) => check.execute(options).await,
            Self::Grants(grants) => grants.execute(options).await,
            Self::Inspect(inspect) => inspect.execute().await,
            Self::Clients(clients) => clients.execute(&options),
            Self::Runners(runners) => runners.execute(),
            Self::Add(add) => add.execute(options).await,
            Self::Requests(requests) => requests.execute(options),
            Self::Remove(remove) => remove.execute(options),
            Self::Update(update) => update.execute(options).await,
            Self::Rollback(rollback) => rollback.execute(options).await,
            Self::Deny(deny) => deny.execute(options),
            Self::Fetch(fetch) => fetch.execute(options).await,
            Self::Lock(lock) => lock.execute(options),
            Self::Store(store) => store.execute(options),
            Self::Bundle(bundle) => bundle.execute(options).await,
            Self::Audit(audit) => audit.execute(&options.trust_settings()).await,
            Self::Call(_) | Self::Serve(_) | Self::Warm(_) => {
                unreachable!("`prepare` handles this verb")
            }
            Self::New(_)
            | Self::Build(_)
            | Self::Dev(_)
            | Self::AddLibrary(_)
            | Self::RemoveLibrary(_)
            | Self::Test(_)
            | Self::Push(_) => {
                unreachable!("`run` starts `skillhost-author` for this verb")
            }
        }
    }
}
