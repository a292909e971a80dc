//! `skillhost respond`: a model's tool calls in, the messages to send back out.

mod input;

use std::io;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use skillhost::exchange::{self, Format, MessageError};
use skillhost::{Host, message, parse_arguments};

use crate::exit::Exit;
use crate::options::{Options, Starter};
use crate::terminal;
use input::Messages;

/// Run the tool calls of a model's messages and print what to send back
///
/// Reads one message from stdin, or messages of one line each: an assistant
/// message, or the whole API response with it. Prints a line for each: a JSON
/// array of what to append to the conversation, empty where nothing was called,
/// or an object with the key `error` where the message cannot be answered.
/// What tools fail at is told to the model. Exits with 0 if every message was
/// answered, and with 2 if one was not.
#[derive(Args)]
pub(crate) struct Respond {
    /// Whose messages they are
    #[arg(long, value_enum)]
    format: Whose,
    /// Show the calls and their results on stderr
    #[arg(long)]
    transcript: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, ValueEnum)]
enum Whose {
    /// OpenAI chat completions
    Openai,
    /// OpenAI Responses
    Responses,
    /// Anthropic Messages
    Anthropic,
    /// Google Gemini
    Gemini,
}

impl From<Whose> for Format {
    fn from(whose: Whose) -> Self {
        match whose {
            Whose::Openai => Self::OpenAi,
            Whose::Responses => Self::Responses,
            Whose::Anthropic => Self::Anthropic,
            Whose::Gemini => Self::Gemini,
        }
    }
}

impl Respond {
    pub(crate) async fn execute(mut self, before: Options) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let options = options.started_by(Starter::Agent);
        let host = options.host().await?;
        let mut messages = Messages::new(io::stdin().lock());
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
            let answer = match message {
                Ok(message) => self.answer(&host, &message).await,
                Err(error) => Err(error),
            };
            let answer = answer.unwrap_or_else(|error| {
                exit = Exit::Usage;
                let reason = format!("line {line}: {error}");
                terminal::complain(&reason);
                json!({ "error": reason })
            });
            // Each on its own: whoever sent it may wait for this one.
            if !terminal::print_json_answer(&message::to_json(&answer))? {
                return Ok(exit);
            }
        }
    }

    async fn answer(&self, host: &Host, message: &str) -> Result<Value, MessageError> {
        let format = Format::from(self.format);
        let calls = format.calls(message)?;
        if self.transcript {
            for call in &calls {
                let arguments = parse_arguments(&call.arguments);
                let arguments = arguments.unwrap_or_else(|_| call.arguments.as_str().into());
                terminal::say(&message::call_line(&call.name, &arguments));
            }
        }
        let answers = exchange::run(host, calls).await;
        if self.transcript {
            let results = answers.iter().map(|answer| &answer.text);
            for line in results.flat_map(|text| message::result_lines(text)) {
                terminal::say(&line);
            }
        }
        Ok(format.messages(answers).into())
    }
}
