//! `skillhost call`: calls a tool once.

use std::io::Read as _;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::Value;
use skillhost::{CallError, Host, MAX_ARGUMENTS, message, parse_arguments};

use crate::exit::Exit;
use crate::options::CommonOptions;
use crate::terminal::{self, format_line};

/// Call a tool and print what the model would read
#[derive(Args)]
pub(crate) struct CallCommand {
    /// Name of the tool
    tool: String,
    /// Arguments as a JSON object, or `-` to read them from stdin
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = AnswerFormat::Text)]
    output: AnswerFormat,
    /// Id of the model's call, for `--output message` and the audit log
    #[arg(long, value_name = "ID", required_if_eq("output", "message"))]
    tool_call_id: Option<String>,
    /// Show the call and its result on stderr
    #[arg(long)]
    transcript: bool,
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

impl CallCommand {
    pub(crate) async fn execute(mut self, before: CommonOptions) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let arguments = match self.arguments() {
            Ok(arguments) => arguments,
            Err(error) => return Ok(refused(&error)),
        };
        let host = options.host_for_one_call().await?;
        if self.transcript {
            terminal::say(&message::call_line(&self.tool, &arguments));
        }
        let id = self.tool_call_id.as_deref();
        let outcome = host.call_with_id(&self.tool, arguments, id).await;
        let exit = match &outcome {
            Ok(_) => Exit::Ok,
            Err(error @ (CallError::UnknownTool { .. } | CallError::Arguments(_))) => {
                let exit = refused(error);
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
        if matches!(self.output, AnswerFormat::Json) {
            terminal::print_json_answer(&message::program_text(&outcome))?;
        }
        let text = message::model_text(outcome);
        match self.output {
            AnswerFormat::Json => {}
            AnswerFormat::Text => terminal::print_answer(&text)?,
            AnswerFormat::Message => self.print_message(&text)?,
        }
        if self.transcript {
            for line in message::result_lines(&text) {
                terminal::say(&line);
            }
        }
        Ok(exit)
    }

    fn print_message(&self, text: &str) -> anyhow::Result<()> {
        let id = self.tool_call_id.as_deref().unwrap_or_default();
        let message = message::tool_message(id, &self.tool, text);
        terminal::print_json_answer(&message::to_json(&message)).map(drop)
    }

    fn arguments(&self) -> Result<Value, CallError> {
        if self.arguments != "-" {
            return parse_arguments(&self.arguments);
        }
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .take(MAX_ARGUMENTS as u64 + 1)
            .read_to_end(&mut bytes)
            .context("cannot read the arguments from stdin")
            .map_err(|error| CallError::Arguments(format!("{error:#}")))?;
        // Arguments that are too long are refused as such, wherever this cut them.
        parse_arguments(&String::from_utf8_lossy(&bytes))
    }
}

fn refused(error: &CallError) -> Exit {
    terminal::complain(error);
    Exit::Usage
}

/// Prints what stands beside the answer: the host's help, and what is for the
/// operator alone.
fn explain(host: &Host, error: &CallError) {
    for line in error.help().iter().flat_map(|help| help.lines()) {
        terminal::say(&format_line!("help: {line}"));
    }
    match error {
        CallError::Failed(failure) => {
            let Some(skill) = &failure.unknown_skill else {
                return;
            };
            let nearest = host.catalog().nearest(skill);
            if !nearest.is_empty() {
                let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
                terminal::complain(format_args!(
                    "there is no skill `{skill}`; did you mean {}?",
                    names.join(" or ")
                ));
            }
        }
        CallError::Stopped { .. } => terminal::complain(error.operator_text()),
        _ => {}
    }
}
