//! Describes the results of calls for the component's author.

use serde_json::Value;
use skillhost::{CallError, Output, Stop};

use super::report::Reason;

/// The result of a call.
pub(super) type CallResult = Result<Output, CallError>;

/// The maximum number of characters that a reason quotes from a component.
const MAX_QUOTED: usize = 300;

/// Describes a result.
pub(super) fn describe(result: &CallResult) -> String {
    match result {
        Ok(output) => format!("it answered {}", quoted(output.text())),
        Err(error @ CallError::Failed(failure)) => {
            let limit = error.met_limit();
            let limit = limit.map_or_else(String::new, |limit| format!("; before that, {limit}"));
            format!("it failed with {}{limit}", quoted(&failure.message))
        }
        Err(CallError::Arguments(message)) => {
            format!("the host refused the arguments: {}", shortened(message))
        }
        Err(CallError::Stopped {
            tool,
            stop: Stop::Trap(causes),
            ..
        }) => format!("`{tool}` trapped: {}", shortened(causes)),
        Err(error) => shortened(&error.operator_text()),
    }
}

/// Returns advice for a tool that the host stopped.
fn advice(stop: &Stop) -> &'static str {
    match stop {
        Stop::Time(_) => "stop after a number of files or bytes, and say so in the answer",
        Stop::Memory(_) => "read a bounded number of bytes, and fail for larger files",
        Stop::Output(_) => "limit the size of the answer, and say in it that there is more",
        Stop::Trap(_) => {
            "do not panic, exit, or leave an exception uncaught: return a failure; `--log info` \
             shows what the tool printed before"
        }
        Stop::Handles(_) => "close one file before you open the next",
        Stop::DirectoryEntries(_) => "stop after a number of names, and say so in the answer",
        _ => "use less of what the limit counts",
    }
}

/// Checks that a call ended in an answer or in the tool's own failure.
///
/// `context` is the beginning of the reason's text.
pub(super) fn answered_or_failed(result: &CallResult, context: &str) -> Result<(), Reason> {
    let fix = match result {
        Ok(_) | Err(CallError::Failed(_)) => return Ok(()),
        Err(CallError::Stopped { stop, .. }) => advice(stop),
        Err(_) => "let the schema accept the arguments that the tool needs",
    };
    Err(Reason {
        why: format!("{context}: {}", describe(result)),
        fix: fix.to_owned(),
    })
}

/// Returns the beginning of a text, quoted as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    Value::from(shortened(text)).to_string()
}

/// Returns the beginning of a text, with an ellipsis if the text is longer.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
