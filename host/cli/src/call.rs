//! `skillhost call`: calls a tool once. `call/` reads the arguments, makes an
//! example of right ones, and writes the files of the answer.

mod arguments;
mod example;
mod output_dir;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::Value;
use skillhost::config::Config;
use skillhost::{
    CallError, Caller, Host, HostBuilder, Output, OutputFiles, Stop, Transport, message,
};
use skillhost_confine::broker::Broker;

use crate::wall::{self, Needs, WallArguments};
use arguments::CallArguments;
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, report_problems};
use skillhost_program::terminal::{self, format_line};

/// Call a tool and print what the model would read
#[derive(Args)]
pub(crate) struct CallCommand {
    /// Name of the tool
    tool: String,
    /// Arguments: KEY=VALUE for each, or one JSON object, or `-` to read that
    /// from stdin
    #[arg(value_name = "KEY=VALUE|JSON")]
    arguments: Vec<String>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    output: AnswerFormat,
    /// Id of the model's call, for `--output message` and the audit log
    #[arg(long, value_name = "ID", required_if_eq("output", "message"))]
    tool_call_id: Option<String>,
    /// Write the files that the call made or changed into a new folder
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Show the call and its result on stderr
    #[arg(long)]
    transcript: bool,
    #[command(flatten)]
    wall: WallArguments,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum AnswerFormat {
    /// The text that the model reads
    Text,
    /// JSON for programs
    Json,
    /// The tool message that answers the model's call
    Message,
}

/// A call whose process is confined.
pub(crate) struct ReadyCall {
    call: CallCommand,
    options: CommonOptions,
    config: Config,
    builder: HostBuilder,
    /// Writes the files of the answer, if they are wanted and this process cannot.
    broker: Option<Arc<Broker>>,
}

impl CallCommand {
    /// Reads and starts what the call needs, and confines the process.
    pub(crate) fn prepare(mut self, before: CommonOptions) -> anyhow::Result<ReadyCall> {
        let options = before.and(std::mem::take(&mut self.options));
        if let Some(folder) = &self.output_dir {
            output_dir::check(folder)?;
        }
        let mut config = options.configured()?;
        // It reserves nothing for more calls.
        config.load.calls = 1;
        let builder = options.builder(&config)?;
        let needs = Needs {
            is_server: false,
            output: self.output_dir.as_deref(),
            ..Needs::default()
        };
        let (builder, broker) = wall::raise(&self.wall, &options, &config, needs, builder)?;
        Ok(ReadyCall {
            call: self,
            options,
            config,
            builder,
            broker,
        })
    }

    async fn execute(
        self,
        options: CommonOptions,
        config: Config,
        builder: HostBuilder,
        broker: Option<&Broker>,
    ) -> anyhow::Result<Exit> {
        let host = builder.build().await?;
        report_problems(&host);
        let mut caller = Caller::new(Transport::Cli);
        if let Some(id) = &self.tool_call_id {
            caller = caller.id(id);
        }
        let mut noted = None;
        let outcome = match self.arguments(&host) {
            Ok(arguments) => {
                if self.transcript {
                    terminal::say(&message::call_line(&self.tool, &arguments));
                }
                let text = arguments.to_string();
                options.prepare_search(&host, &self.tool, &text).await;
                noted = host.noted_skill(&self.tool, &arguments);
                host.call_from(&caller, &self.tool, arguments).await
            }
            Err(error) => host.refuse(&caller, &self.tool, error).await,
        };
        if let Some(skill) = noted.filter(|_| outcome.is_ok())
            && let Some(note) = host.script_note(&caller, &skill).await
        {
            for line in note.lines() {
                terminal::say(&format_line!("help: {line}"));
            }
        }
        let exit = match &outcome {
            Ok(_) => Exit::Ok,
            Err(error @ (CallError::UnknownTool { .. } | CallError::Arguments(_))) => {
                let exit = self.refused(&host, &config, error);
                // The model's call still needs an answer.
                if matches!(self.output, AnswerFormat::Message) {
                    self.print_message(&message::model_text(outcome))?;
                }
                return Ok(exit);
            }
            Err(error) => {
                explain(&host, error);
                match error {
                    CallError::Failed(_) => Exit::Failure,
                    _ => Exit::Stopped,
                }
            }
        };
        let json = match self.output {
            AnswerFormat::Json => {
                terminal::print_json_answer(&message::program_text(&outcome)).map(drop)
            }
            _ => Ok(()),
        };
        let files = outcome.as_ref().ok().and_then(Output::files).cloned();
        let text = message::model_text(outcome);
        let printed = match self.output {
            AnswerFormat::Json => json,
            AnswerFormat::Text => terminal::print_answer(&text),
            AnswerFormat::Message => self.print_message(&text),
        };
        if self.transcript {
            for line in message::result_lines(&text) {
                terminal::say(&line);
            }
        }
        // Also if nothing can be printed: the files are gone after this.
        let kept = match exit {
            Exit::Ok => self.keep(files.as_ref(), broker),
            exit => Ok(exit),
        };
        if let (Err(_), Err(error)) = (&printed, &kept) {
            terminal::complain(format_args!("{error:#}"));
        }
        printed.and(kept)
    }

    /// Writes the files that the call made or changed, or says how to.
    fn keep(&self, files: Option<&OutputFiles>, broker: Option<&Broker>) -> anyhow::Result<Exit> {
        match (&self.output_dir, files) {
            (None, Some(files)) if files.total > 0 => terminal::complain(format_args!(
                "the call made or changed {} files, which are gone now; `--output-dir DIR` writes \
                 them into a new folder",
                files.total
            )),
            (None, _) => {}
            (Some(_), None) => terminal::complain(
                "`--output-dir`: there are no files, because the tool's grant has no `view = \
                 \"copy-on-write\"`",
            ),
            (Some(folder), Some(files)) => {
                if !output_dir::write(files, folder, broker)? {
                    return Ok(Exit::Failure);
                }
            }
        }
        Ok(Exit::Ok)
    }

    fn print_message(&self, text: &str) -> anyhow::Result<()> {
        let id = self.tool_call_id.as_deref().unwrap_or_default();
        let message = message::tool_message(id, &self.tool, text);
        terminal::print_json_answer(&message::to_json(&message)).map(drop)
    }

    fn arguments(&self, host: &Host) -> Result<Value, CallError> {
        let schema = host.definition(&self.tool).map(|tool| &tool.input_schema);
        CallArguments::of(&self.arguments)?.read(schema)
    }

    /// Prints why the call is refused, and how to make it right.
    fn refused(&self, host: &Host, config: &Config, error: &CallError) -> Exit {
        match error {
            CallError::UnknownTool { .. } if host.leaves_out(&self.tool) => {
                let file = config.file.as_deref().unwrap_or_default();
                terminal::complain(format_args!(
                    "{error}; `offer` or `disabled_tools` in `{file}` leaves it out"
                ));
            }
            CallError::UnknownTool { .. } => {
                terminal::complain(format_args!("{error} ({})", places(config)));
            }
            _ => {
                terminal::complain(error);
                if let Some(example) = example::of_tool(host, &self.tool) {
                    terminal::complain(format_args!("for example: {example}"));
                }
            }
        }
        Exit::Usage
    }
}

impl ReadyCall {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        let Self {
            call,
            options,
            config,
            builder,
            broker,
        } = self;
        let broker = broker.as_deref();
        call.execute(options, config, builder, broker).await
    }
}

/// Returns where tools are looked for.
fn places(config: &Config) -> String {
    let folders = config.tools.iter();
    let folders: Vec<String> = folders
        .map(|folder| format!("`{}`", folder.path.display()))
        .collect();
    match folders.is_empty() {
        true => "only built-in tools are loaded; `--tools DIR` adds those of a folder".to_owned(),
        false => format!(
            "looked among the built-in tools and in {}; `--tools DIR` adds a folder",
            folders.join(", ")
        ),
    }
}

/// Returns the names of skills that are like one which does not exist, to stand after it.
fn nearest(host: &Host, skill: &str) -> String {
    let names = host.catalog().nearest(skill);
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// Prints what stands beside the answer: the host's help, and what is for the
/// operator alone.
fn explain(host: &Host, error: &CallError) {
    for line in error.help().iter().flat_map(|help| help.lines()) {
        terminal::say(&format_line!("help: {line}"));
    }
    if let Some(met) = error.met_limit() {
        terminal::complain(format_args!("before it failed, {met}"));
    }
    match error {
        // Help has the names, unless it is off.
        CallError::Failed(failure) if error.help().is_none() => {
            let Some(skill) = &failure.unknown_skill else {
                return;
            };
            let nearest = nearest(host, skill);
            if !nearest.is_empty() {
                terminal::complain(format_args!("there is no skill `{skill}`{nearest}"));
            }
        }
        // No grant would give what is not there.
        CallError::Stopped {
            stop: Stop::NotGranted { skill, .. },
            ..
        } if !host.catalog().has(skill) => {
            let nearest = nearest(host, skill);
            terminal::complain(format_args!("there is no skill `{skill}`{nearest}"));
        }
        CallError::Stopped {
            stop: Stop::Trap(_),
            ..
        } if !tracing::enabled!(tracing::Level::INFO) => terminal::complain(format_args!(
            "{} (`--log info` shows what it printed)",
            error.operator_text()
        )),
        CallError::Stopped { .. } => terminal::complain(error.operator_text()),
        _ => {}
    }
}
