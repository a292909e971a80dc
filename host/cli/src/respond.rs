//! `skillhost respond`: reads a model's tool calls, and prints the messages to send back.

mod input;

use std::io;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use skillhost::exchange::{self, Format, MessageError};
use skillhost::{Caller, Host, Transport, message, parse_arguments};

use crate::packages;
use input::MessageReader;
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, Starter, report_problems, with_egress};
use skillhost_program::terminal;

/// Run the tool calls of a model's messages and print what to send back
///
/// Reads one message from stdin, or one message per line: an assistant message,
/// or the whole API response with it. Prints one line of JSON for each: an
/// array of messages to append to the conversation, empty if no tool was called,
/// or an object with the key `error` if the message cannot be answered. A tool's
/// failure is an answer for the model. Exits with 0 if every message was
/// answered, else with 2.
#[derive(Args)]
pub(crate) struct RespondCommand {
    /// API that the messages are from
    #[arg(long, value_parser = message_formats())]
    format: Format,
    /// Show the calls and their results on stderr
    #[arg(long)]
    transcript: bool,
    #[command(flatten)]
    options: CommonOptions,
}

impl RespondCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let options = options.started_by(Starter::Agent);
        let settings = packages::load(&options)?;
        let egress = options.start_egress(settings.host.egress()?)?;
        let builder = with_egress(options.builder(&settings.host)?, egress)?;
        let host = builder.build().await?;
        report_problems(&host);
        let input = format!("a message of the format `{}` on stdin", self.format.name());
        terminal::explain_wait(input, "Ctrl-D");
        let mut messages = MessageReader::new(io::stdin().lock());
        let mut exit = Exit::Ok;
        loop {
            let (line, message) = match messages.next() {
                Ok(None) => return Ok(exit),
                Ok(Some(next)) => next,
                Err(error) => {
                    terminal::complain(format_args!("cannot read messages from stdin: {error}"));
                    return Ok(Exit::Usage);
                }
            };
            let result = match message {
                Ok(message) => self.answer(&options, &host, &message).await,
                Err(error) => Err(error),
            };
            let answer = result.unwrap_or_else(|error| {
                exit = Exit::Usage;
                let reason = format!("line {line}: {error}");
                terminal::complain(&reason);
                json!({ "error": reason })
            });
            // Print each answer at once: the sender may wait for it.
            if !terminal::print_json_answer(&message::to_json(&answer))? {
                return Ok(exit);
            }
        }
    }

    /// Runs the tool calls of a message, and returns the messages to send back.
    async fn answer(
        &self,
        options: &CommonOptions,
        host: &Host,
        message: &str,
    ) -> Result<Value, MessageError> {
        let calls = self.format.calls(message)?;
        for call in &calls {
            options
                .prepare_search(host, &call.name, &call.arguments)
                .await;
        }
        if self.transcript {
            for call in &calls {
                let arguments = parse_arguments(&call.arguments)
                    .unwrap_or_else(|_| call.arguments.as_str().into());
                terminal::say(&message::call_line(&call.name, &arguments));
            }
        }
        let answers = exchange::run_from(&Caller::new(Transport::Cli), host, calls).await;
        if self.transcript {
            let results = answers.iter().map(|answer| &answer.text);
            for line in results.flat_map(|text| message::result_lines(text)) {
                terminal::say(&line);
            }
        }
        Ok(self.format.messages(answers).into())
    }
}

/// Returns a parser for the names of message formats.
fn message_formats() -> impl TypedValueParser<Value = Format> {
    let value = |format: Format| PossibleValue::new(format.name()).help(format.title());
    let names = PossibleValuesParser::new(Format::ALL.map(value));
    names.try_map(|name| Format::from_name(&name).ok_or("unknown format"))
}
