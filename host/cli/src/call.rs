//! `skillhost call`: calls a tool once. `call/` reads the arguments, builds an example call, and
//! writes the files of the answer.

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
use skillhost_confine::broker::BrokerClient;
use skillhost_skills::text::count::count;
use skillhost_skills::text::suggest::did_you_mean;

use crate::packages;
use crate::process_sandbox::{self, SandboxArguments, VerbNeeds};
use arguments::CallArguments;
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, report_problems, with_egress};
use skillhost_program::terminal::{self, format_line};

/// Call a tool and print what the model would read
#[derive(Args)]
pub(crate) struct CallCommand {
    /// Name of the tool
    tool: String,
    /// Arguments: KEY=VALUE for each, or one JSON object, or `-` to read the
    /// object from stdin
    #[arg(value_name = "KEY=VALUE|JSON")]
    arguments: Vec<String>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    output: AnswerFormat,
    /// Id of the model's call, for `--output message` and the audit log
    #[arg(long, value_name = "ID", required_if_eq("output", "message"))]
    tool_call_id: Option<String>,
    /// New folder for the files that the call made or changed
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Show the call and its result on stderr
    #[arg(long)]
    transcript: bool,
    #[command(flatten)]
    sandbox: SandboxArguments,
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

/// A call that is ready to run, in a confined process.
pub(crate) struct ReadyCall {
    may_send_requests: bool,
    call: CallCommand,
    options: CommonOptions,
    config: Config,
    builder: HostBuilder,
    /// The broker that writes the files of `--output-dir`, because the confined process cannot.
    broker: Option<Arc<BrokerClient>>,
}

impl CallCommand {
    /// Opens and starts what the call needs, then confines the process.
    pub(crate) fn prepare(mut self, global_options: CommonOptions) -> anyhow::Result<ReadyCall> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        if let Some(folder) = &self.output_dir {
            output_dir::check(folder, &options.trust_settings())?;
        }
        let mut settings = packages::load(&options)?;
        // Reserve nothing for other calls: this process runs only one.
        settings.host.load.calls = 1;
        let builder = options.builder(&settings.host)?;
        let egress = options.start_egress(settings.host.egress()?)?;
        let needs = VerbNeeds {
            is_server: false,
            output: self.output_dir.as_deref(),
            ..VerbNeeds::default()
        };
        let (builder, broker) =
            process_sandbox::confine(&self.sandbox, &options, &settings, needs, builder)?;
        let may_send_requests = egress.is_some();
        let builder = with_egress(builder, egress)?;
        Ok(ReadyCall {
            may_send_requests,
            call: self,
            options,
            config: settings.host,
            builder,
            broker,
        })
    }

    async fn execute(
        self,
        options: CommonOptions,
        config: Config,
        builder: HostBuilder,
        broker: Option<&BrokerClient>,
    ) -> anyhow::Result<Exit> {
        let host = builder.build().await?;
        report_problems(&host);
        let outcome = self.call(&host, &options).await;
        let exit = match &outcome {
            Ok(_) => Exit::Ok,
            Err(error @ (CallError::UnknownTool { .. } | CallError::Arguments(_))) => {
                self.explain_refusal(&host, &config, error);
                let exit = if self.may_be_in_refused_component(&host, error) {
                    Exit::Setup
                } else {
                    Exit::Usage
                };
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
        let files = outcome.as_ref().ok().and_then(Output::files).cloned();
        let printed = self.print_answer(outcome);
        // The files exist only until the process ends, so write them even if printing failed.
        let written = match exit {
            Exit::Ok => self.write_files(files.as_ref(), broker),
            exit => Ok(exit),
        };
        if let (Err(_), Err(error)) = (&printed, &written) {
            terminal::complain(format_args!("{error:#}"));
        }
        printed.and(written)
    }

    /// Calls the tool. Prints the transcript of the call, and its notes, on stderr.
    async fn call(&self, host: &Host, options: &CommonOptions) -> Result<Output, CallError> {
        let mut caller = Caller::new(Transport::Cli);
        if let Some(id) = &self.tool_call_id {
            caller = caller.id(id);
        }
        let arguments = match self.arguments(host) {
            Ok(arguments) => arguments,
            Err(error) => return host.refuse(&caller, &self.tool, error).await,
        };
        if self.transcript {
            terminal::say(&message::call_line(&self.tool, &arguments));
        }
        let text = arguments.to_string();
        options.prepare_search(host, &self.tool, &text).await;
        let skill_for_note = host.noted_skill(&self.tool, &arguments);
        let output = host.call_from(&caller, &self.tool, arguments).await?;
        let mut notes = Vec::from_iter(host.placeholder_note(&self.tool, &output));
        if let Some(skill) = skill_for_note {
            notes.extend(host.script_note(&caller, &skill, None).await);
        }
        for line in notes.iter().flat_map(|note| note.lines()) {
            terminal::say(&format_line!("help: {line}"));
        }
        Ok(output)
    }

    /// Prints the answer in the chosen form.
    fn print_answer(&self, outcome: Result<Output, CallError>) -> anyhow::Result<()> {
        let json = match self.output {
            AnswerFormat::Json => Some(message::program_text(&outcome)),
            AnswerFormat::Text | AnswerFormat::Message => None,
        };
        let text = message::model_text(outcome);
        let printed = match (self.output, &json) {
            (AnswerFormat::Message, _) => self.print_message(&text),
            (_, Some(json)) => terminal::print_json_answer(json).map(drop),
            (_, None) => terminal::print_answer(&text),
        };
        if self.transcript {
            for line in message::result_lines(&text) {
                terminal::say(&line);
            }
        }
        printed
    }

    /// Writes the files that the call made or changed, or says how to get them.
    fn write_files(
        &self,
        files: Option<&OutputFiles>,
        broker: Option<&BrokerClient>,
    ) -> anyhow::Result<Exit> {
        match (&self.output_dir, files) {
            (None, Some(files)) if files.total > 0 => terminal::complain(format_args!(
                "discarded {} that the call made or changed; `--output-dir DIR` writes such files \
                 into a new folder",
                count(files.total, "file")
            )),
            (None, _) => {}
            (Some(_), None) => terminal::complain(
                "`--output-dir`: there are no files, because the tool's grant does not set `view = \
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
        CallArguments::parse(&self.arguments)?.read(schema)
    }

    /// Returns whether the tool is unknown, but may be in a component that was refused.
    fn may_be_in_refused_component(&self, host: &Host, error: &CallError) -> bool {
        matches!(error, CallError::UnknownTool { .. })
            && !host.leaves_out(&self.tool)
            && host.occupancy().refused_components > 0
    }

    /// Prints why the call was refused, and how to correct it.
    fn explain_refusal(&self, host: &Host, config: &Config, error: &CallError) {
        match error {
            CallError::UnknownTool { .. } if host.leaves_out(&self.tool) => {
                let file = config.file.as_deref().unwrap_or_default();
                terminal::complain(format_args!(
                    "{error}; `offer` or `disabled_tools` in `{file}` leaves it out"
                ));
            }
            // `report_problems` has printed why a component was refused.
            CallError::UnknownTool { nearest, .. }
                if self.may_be_in_refused_component(host, error) =>
            {
                let (tool, similar) = (&self.tool, did_you_mean(nearest, '`'));
                terminal::complain(format_args!(
                    "there is no tool `{tool}`; it may be in a component that was refused, as \
                     reported above{similar}"
                ));
            }
            CallError::UnknownTool { .. } => {
                terminal::complain(format_args!("{error} ({})", searched_folders(config)));
            }
            _ => {
                terminal::complain(error);
                if let Some(example) = example::for_tool(host, &self.tool) {
                    terminal::complain(format_args!("for example: {example}"));
                }
            }
        }
    }
}

impl ReadyCall {
    /// Returns whether the call may send requests.
    pub(crate) fn may_send_requests(&self) -> bool {
        self.may_send_requests
    }

    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        let Self {
            call,
            options,
            config,
            builder,
            broker,
            may_send_requests: _,
        } = self;
        let broker = broker.as_deref();
        call.execute(options, config, builder, broker).await
    }
}

/// Returns a phrase that says where a tool was looked for.
fn searched_folders(config: &Config) -> String {
    if !config.has_third_party_components() {
        return "only built-in tools are loaded; `--tools DIR` adds those of a folder".to_owned();
    }
    let folders = config.tools.iter();
    let folders = folders.map(|folder| format!("`{}`", folder.path.display()));
    let named = config.named_components.keys();
    let named = named.map(|name| format!("`{name}`"));
    let folders: Vec<String> = folders.chain(named).collect();
    format!(
        "looked among the built-in tools and in {}; `--tools DIR` adds a folder",
        folders.join(", ")
    )
}

/// Prints what the answer of a failed call leaves out: the host's help, and details for the
/// operator.
fn explain(host: &Host, error: &CallError) {
    for line in error.help().iter().flat_map(|help| help.lines()) {
        terminal::say(&format_line!("help: {line}"));
    }
    if let Some(limit) = error.met_limit() {
        terminal::complain(format_args!("before it failed, {limit}"));
    }
    match error {
        // The help names similar skills, unless it is off.
        CallError::Failed(failure) if error.help().is_none() => {
            let Some(skill) = &failure.unknown_skill else {
                return;
            };
            let similar = did_you_mean(host.catalog().nearest(skill), '`');
            if !similar.is_empty() {
                terminal::complain(format_args!("there is no skill `{skill}`{similar}"));
            }
        }
        // Do not advise a grant: the skill does not exist.
        CallError::Stopped {
            stop: Stop::NotGranted { skill, .. },
            ..
        } if !host.catalog().has(skill) => {
            let similar = did_you_mean(host.catalog().nearest(skill), '`');
            terminal::complain(format_args!("there is no skill `{skill}`{similar}"));
        }
        CallError::Stopped {
            stop: Stop::Trap(_),
            ..
        } if !tracing::enabled!(tracing::Level::INFO) => terminal::complain(format_args!(
            "{} (`--log info` shows what the tool printed)",
            error.operator_text()
        )),
        CallError::Stopped { .. } => terminal::complain(error.operator_text()),
        _ => {}
    }
}
