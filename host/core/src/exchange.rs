//! Function calls in the formats of model APIs: translates definitions, calls and results.
//! Only [`run`] and [`respond`] run calls. Nothing here reads or writes a stream.
//!
//! ```
//! # fn main() -> anyhow::Result<()> {
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! use skillhost::Host;
//! use skillhost::exchange::{self, Format};
//!
//! # let skills = concat!(env!("CARGO_MANIFEST_DIR"), "/../../skills");
//! let host = Host::builder().skills(skills).build().await?;
//!
//! // The `tools` of the request.
//! let tools = Format::Anthropic.tools(&host.definitions());
//! assert_eq!(tools[0]["name"], "read_file_in_skill");
//!
//! // The model's message.
//! let message = r#"{"role": "assistant", "content": [
//!     {"type": "tool_use", "id": "toolu_1", "name": "get_skill",
//!      "input": {"skill_name": "nonexistent"}}]}"#;
//!
//! // The messages to append to the conversation after it.
//! let answer = exchange::respond(&host, Format::Anthropic, message).await?;
//! assert_eq!(answer[0]["role"], "user");
//! assert_eq!(answer[0]["content"][0]["tool_use_id"], "toolu_1");
//! assert_eq!(answer[0]["content"][0]["is_error"], true);
//! # anyhow::Ok(())
//! # })?;
//! # Ok(())
//! # }
//! ```

mod anthropic;
mod gemini;
mod mcp;
mod openai;
mod parse;
mod responses;
mod running;
mod schema;
mod strict;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::host::Host;
use skillhost_sandbox::tool::Definition;

pub use mcp::{LARGEST_RESULT, mcp_tools};
pub use running::{run, run_from};
pub use strict::NotStrict;

/// The maximum number of bytes of a message. Guards against: endless input. A whole API response
/// with reasoning and images has a few million bytes.
pub const MAX_MESSAGE: usize = 16 << 20;

/// The maximum number of calls in a message. Guards against: a message whose calls take hours.
/// Models make a few dozen calls at most.
pub const MAX_CALLS: usize = 512;

/// The format of a model API's messages and definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// OpenAI's chat completions, which many other servers support: `tool_calls`, each
    /// answered by a `tool` message.
    OpenAi,
    /// OpenAI's Responses: `function_call` items, each answered by a `function_call_output`
    /// item.
    Responses,
    /// Anthropic's Messages: `tool_use` blocks, answered by `tool_result`
    /// blocks in one `user` message.
    Anthropic,
    /// Google's Gemini: `functionCall` parts, answered by `functionResponse`
    /// parts in one `user` content.
    Gemini,
}

/// A tool call in a model's message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The id, which the result repeats. Gemini may omit the id, and then matches results by their
    /// order.
    pub id: Option<String>,
    /// The tool's name, as in the message.
    pub name: String,
    /// The text of the arguments, which may be invalid JSON.
    pub arguments: String,
}

/// The result of a [`Call`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The call's id.
    pub id: Option<String>,
    /// The tool's name, as in the message.
    pub name: String,
    /// The text that the model reads.
    pub text: String,
    /// True if the call failed. The text says why.
    pub failed: bool,
    /// Help beside a failure; see [`CallError::model_help`](crate::CallError::model_help).
    /// [`Format::messages`] leaves it out, because a result in a message is a single text.
    pub help: Option<String>,
}

/// The reason why a message cannot be answered. None of the message's calls ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The message is larger than [`MAX_MESSAGE`].
    #[error("the message is larger than {MAX_MESSAGE} bytes")]
    TooLarge,
    /// The message has more calls than [`MAX_CALLS`].
    #[error("the message has more than {MAX_CALLS} calls")]
    TooManyCalls,
    /// The message is invalid JSON; the text says where.
    #[error("the message is not JSON: {0}")]
    NotJson(String),
    /// The message is not an assistant message of this format; the text says why.
    #[error("the message cannot be answered: {0}")]
    Shape(String),
}

/// Definitions for strict mode, in which the model only writes arguments that match the
/// schema.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StrictTools {
    /// The `tools` of a request.
    pub tools: Value,
    /// The tools whose schemas strict mode cannot express. `tools` has them without strict
    /// mode.
    pub not_strict: Vec<NotStrict>,
}

/// A function that translates a definition. With a schema for strict mode, the result uses this
/// mode.
type ToolWriter = fn(&Definition, Option<Map<String, Value>>) -> Value;

/// A format, and the functions that translate it.
struct Dialect {
    name: &'static str,
    title: &'static str,
    calls: fn(&str) -> Result<Vec<Call>, MessageError>,
    messages: fn(Vec<Answer>) -> Vec<Value>,
    tools: fn(&[Definition]) -> Value,
    /// `None` if the format has no strict mode.
    strict_tool: Option<ToolWriter>,
}

/// The formats, in the order of [`Format`].
const DIALECTS: [Dialect; Format::ALL.len()] = [
    Dialect {
        name: "openai",
        title: "OpenAI chat completions",
        calls: openai::calls,
        messages: |answers| answers.into_iter().map(openai::message).collect(),
        tools: |tools| tools.iter().map(|tool| openai::tool(tool, None)).collect(),
        strict_tool: Some(openai::tool),
    },
    Dialect {
        name: "responses",
        title: "OpenAI Responses",
        calls: responses::calls,
        messages: |answers| answers.into_iter().map(responses::item).collect(),
        tools: |tools| {
            let tools = tools.iter().map(|tool| responses::tool(tool, None));
            tools.collect()
        },
        strict_tool: Some(responses::tool),
    },
    Dialect {
        name: "anthropic",
        title: "Anthropic Messages",
        calls: anthropic::calls,
        messages: |answers| vec![anthropic::message(answers)],
        tools: |tools| tools.iter().map(anthropic::tool).collect(),
        strict_tool: None,
    },
    Dialect {
        name: "gemini",
        title: "Google Gemini",
        calls: gemini::calls,
        messages: |answers| vec![gemini::content(answers)],
        tools: gemini::tools,
        strict_tool: None,
    },
];

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Gemini];

    fn dialect(self) -> &'static Dialect {
        &DIALECTS[self as usize]
    }

    /// Returns the format of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the name on the command line, such as `openai`.
    pub fn name(self) -> &'static str {
        self.dialect().name
    }

    /// Returns the name for people, such as `OpenAI chat completions`.
    pub fn title(self) -> &'static str {
        self.dialect().title
    }

    /// Returns whether the format has a strict mode.
    pub fn has_strict_mode(self) -> bool {
        self.dialect().strict_tool.is_some()
    }

    /// Returns the calls of an assistant message in order. `message` is the message, or an API
    /// response with exactly one message.
    pub fn calls(self, message: &str) -> Result<Vec<Call>, MessageError> {
        if message.len() > MAX_MESSAGE {
            return Err(MessageError::TooLarge);
        }
        let calls = (self.dialect().calls)(message)?;
        if calls.len() > MAX_CALLS {
            return Err(MessageError::TooManyCalls);
        }
        Ok(calls)
    }

    /// Returns the messages (or items, for Responses) to append to the conversation after
    /// the message with the calls. Returns an empty list if there are no answers.
    pub fn messages(self, answers: Vec<Answer>) -> Vec<Value> {
        if answers.is_empty() {
            Vec::new()
        } else {
            (self.dialect().messages)(answers)
        }
    }

    /// Returns the definitions for the `tools` of a request.
    pub fn tools(self, definitions: &[Definition]) -> Value {
        (self.dialect().tools)(definitions)
    }

    /// Returns the keywords of a tool's schema that limit arguments, and that this format leaves
    /// out. The host still checks arguments against them.
    pub fn dropped_keywords(self, definition: &Definition) -> BTreeSet<&str> {
        let written = self.tools(std::slice::from_ref(definition));
        let pointers = [
            "/0/function/parameters",
            "/0/parameters",
            "/0/input_schema",
            "/0/functionDeclarations/0/parameters",
            "/0/functionDeclarations/0/parametersJsonSchema",
        ];
        let mut pointers = pointers.iter();
        let mut dropped = BTreeSet::new();
        // Without a schema, the tool takes no arguments.
        if let Some(written) = pointers.find_map(|it| written.pointer(it)?.as_object()) {
            schema::add_dropped(&definition.input_schema, written, &mut dropped);
        }
        dropped
    }

    /// Returns the definitions for strict mode, or `None` if the format has none.
    pub fn strict_tools(self, definitions: &[Definition]) -> Option<StrictTools> {
        let tool = self.dialect().strict_tool?;
        let mut not_strict = Vec::new();
        let tools = definitions
            .iter()
            .map(|definition| {
                let schema = strict::schema(&definition.name, &definition.input_schema);
                let schema = schema.map_err(|reason| not_strict.push(reason));
                tool(definition, schema.ok())
            })
            .collect();
        Some(StrictTools { tools, not_strict })
    }
}

/// Runs the calls of an assistant message, and returns the messages to append to the
/// conversation. Returns an empty list if there are no calls.
pub async fn respond(
    host: &Host,
    format: Format,
    message: &str,
) -> Result<Vec<Value>, MessageError> {
    let calls = format.calls(message)?;
    Ok(format.messages(run(host, calls).await))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_page_list_each_format() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/agents.md");
        let page = std::fs::read_to_string(page).unwrap();
        for (format, name) in
            Format::ALL
                .into_iter()
                .zip(["openai", "responses", "anthropic", "gemini"])
        {
            assert_eq!(
                (format.name(), Format::from_name(name)),
                (name, Some(format))
            );
            let row = format!("\n| `{name}` | {}", format.title());
            assert!(page.contains(&row), "{row}");
        }
    }
}
