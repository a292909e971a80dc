//! Function calls as the models' own interfaces write them: definitions out,
//! calls in, results out. Translation is pure; [`run`] is the one function
//! here that starts anything. Nothing here reads or writes a stream.
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
//! // What goes into the request as `tools`.
//! let tools = Format::Anthropic.tools(&host.definitions());
//! assert_eq!(tools[0]["name"], "read_file_in_skill");
//!
//! // What came back.
//! let message = r#"{"role": "assistant", "content": [
//!     {"type": "tool_use", "id": "toolu_1", "name": "get_skill",
//!      "input": {"skill_name": "nonexistent"}}]}"#;
//!
//! // What to append to the conversation, after that message.
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

use serde_json::Value;

use crate::host::Host;
use crate::tool::Definition;

pub use mcp::mcp_tools;
pub use running::run;
pub use strict::NotStrict;

/// Most bytes of a message. Meets: a stream without an end. A whole API
/// response with reasoning and images has a few million.
pub const MAX_MESSAGE: usize = 16 << 20;

/// Most calls in a message. Meets: a message that costs hours. Models make a
/// few dozen at most.
pub const MAX_CALLS: usize = 512;

/// A model's interface, by what its messages look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// OpenAI's chat completions, which many other servers speak too:
    /// `tool_calls`, answered by a `tool` message each.
    OpenAi,
    /// OpenAI's Responses: `function_call` items, answered by a
    /// `function_call_output` item each.
    Responses,
    /// Anthropic's Messages: `tool_use` blocks, answered by `tool_result`
    /// blocks in one `user` message.
    Anthropic,
    /// Google's Gemini: `functionCall` parts, answered by `functionResponse`
    /// parts in one `user` content.
    Gemini,
}

/// A call that a model made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// What the result is told apart by. Gemini may leave it out, and then
    /// goes by the order.
    pub id: Option<String>,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments as JSON, as the model wrote them: they may be broken.
    pub arguments: String,
}

/// What became of a [`Call`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The call's.
    pub id: Option<String>,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// What the model reads.
    pub text: String,
    /// Whether the call has no output, and the text says why.
    pub failed: bool,
}

/// Why a message has no answer. Nothing of it was run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// It is larger than [`MAX_MESSAGE`].
    #[error("the message is larger than {MAX_MESSAGE} bytes")]
    TooLarge,
    /// It has more calls than [`MAX_CALLS`].
    #[error("the message has more than {MAX_CALLS} calls")]
    TooManyCalls,
    /// It is not JSON; the text says where.
    #[error("the message is not JSON: {0}")]
    NotJson(String),
    /// It is not one assistant message of this format; the text says why.
    #[error("the message cannot be answered: {0}")]
    Shape(String),
}

/// Definitions for strict mode: the model then writes arguments that fit, or
/// none.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StrictTools {
    /// What goes into a request as `tools`.
    pub tools: Value,
    /// The tools whose schemas strict mode cannot say. They are among the
    /// others, and not strict.
    pub not_strict: Vec<NotStrict>,
}

impl Format {
    /// The calls of an assistant message, in their order. The text is the
    /// message, or the whole API response that holds one and no other.
    pub fn calls(self, message: &str) -> Result<Vec<Call>, MessageError> {
        if message.len() > MAX_MESSAGE {
            return Err(MessageError::TooLarge);
        }
        let calls = match self {
            Self::OpenAi => openai::calls(message)?,
            Self::Responses => responses::calls(message)?,
            Self::Anthropic => anthropic::calls(message)?,
            Self::Gemini => gemini::calls(message)?,
        };
        if calls.len() > MAX_CALLS {
            return Err(MessageError::TooManyCalls);
        }
        Ok(calls)
    }

    /// What to append to the conversation after the message that made the
    /// calls: messages, or items for Responses. Nothing if there are none.
    pub fn messages(self, answers: Vec<Answer>) -> Vec<Value> {
        if answers.is_empty() {
            return Vec::new();
        }
        match self {
            Self::OpenAi => answers.into_iter().map(openai::message).collect(),
            Self::Responses => answers.into_iter().map(responses::item).collect(),
            Self::Anthropic => vec![anthropic::message(answers)],
            Self::Gemini => vec![gemini::content(answers)],
        }
    }

    /// The definitions, as they go into a request as `tools`.
    pub fn tools(self, definitions: &[Definition]) -> Value {
        match self {
            Self::OpenAi => definitions.iter().map(openai::tool).collect(),
            Self::Responses => definitions.iter().map(responses::tool).collect(),
            Self::Anthropic => definitions.iter().map(anthropic::tool).collect(),
            Self::Gemini => gemini::tools(definitions),
        }
    }

    /// The definitions for OpenAI's strict mode. `None`: the format has none.
    pub fn strict_tools(self, definitions: &[Definition]) -> Option<StrictTools> {
        let tool = match self {
            Self::OpenAi => openai::strict_tool,
            Self::Responses => responses::strict_tool,
            Self::Anthropic | Self::Gemini => return None,
        };
        let mut not_strict = Vec::new();
        let tools = definitions
            .iter()
            .map(|definition| match strict::schema(definition) {
                Ok(schema) => tool(definition, schema),
                Err(reason) => {
                    not_strict.push(reason);
                    match self {
                        Self::Responses => responses::tool(definition),
                        _ => openai::tool(definition),
                    }
                }
            })
            .collect();
        Some(StrictTools { tools, not_strict })
    }
}

/// Answers an assistant message: runs its calls and gives what to append to
/// the conversation after it. Nothing to append: the model called nothing.
pub async fn respond(
    host: &Host,
    format: Format,
    message: &str,
) -> Result<Vec<Value>, MessageError> {
    let calls = format.calls(message)?;
    Ok(format.messages(run(host, calls).await))
}
