//! The command line: parses, dispatches to a verb, prints what went wrong, and
//! sets the exit code. What each verb does stands in the file of its name.

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
mod terminal;
mod test;
mod tools;

use std::env;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit};
use skillhost::Line;

use exit::Exit;
use options::Options;

/// Run agent skill tools as sandboxed WebAssembly components.
#[derive(Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Call(call::Call),
    Tools(tools::Tools),
    Respond(respond::Respond),
    Skills(skills::Skills),
    Prompt(prompt::Prompt),
    Check(check::Check),
    Grants(grants::Grants),
    Inspect(inspect::Inspect),
    New(new::New),
    Build(build::Build),
    Dev(dev::Dev),
    Test(test::Test),
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    panic::install_hook();
    if env::args_os()
        .nth(1)
        .is_some_and(|first| first == skillhost::COMPILE_ARGUMENT)
    {
        return compile();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Some of the words may be an agent's: what is wrong with them is
            // said of words in which nothing is hidden.
            let words = env::args_os().map(|word| Line::new(word.to_string_lossy()).to_string());
            let error = Arguments::try_parse_from(words).err().unwrap_or(error);
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
        // Their calls run beside each other.
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
    let done = runtime.block_on(async {
        match arguments.verb {
            Verb::Call(call) => call.execute(arguments.options).await,
            Verb::Tools(tools) => tools.execute(arguments.options).await,
            Verb::Respond(respond) => respond.execute(arguments.options).await,
            Verb::Skills(skills) => skills.execute(arguments.options),
            Verb::Prompt(prompt) => prompt.execute(arguments.options),
            Verb::Check(check) => check.execute(arguments.options),
            Verb::Grants(grants) => grants.execute(arguments.options).await,
            Verb::Inspect(inspect) => inspect.execute().await,
            Verb::New(new) => new.execute(),
            Verb::Build(build) => build.execute().await,
            Verb::Dev(dev) => dev.execute().await,
            Verb::Test(test) => test.execute(arguments.options).await,
            Verb::Serve(serve) => serve.execute(arguments.options).await,
        }
    });
    // A thread that reads a terminal, or compiles, is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal::complain(format_args!("{error:#}"));
            Exit::Setup.into()
        }
    }
}

/// Takes as many file descriptors as this process may have. The usual limit is
/// there for programs that cannot count beyond it, and calls need some each.
fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // The limit stays as it was, and calls have fewer.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// This process was started by a host, to compile a component.
fn compile() -> ExitCode {
    match skillhost::compile_component() {
        Ok(()) => Exit::Ok,
        Err(error) => {
            // Read by the host, which says whose component it was.
            terminal::say(&terminal::format_line!("{error:#}"));
            Exit::Failure
        }
    }
    .into()
}
