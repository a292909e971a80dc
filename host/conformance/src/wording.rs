//! The result of a call, in words for the component's author.

use serde_json::Value;
use skillhost::{CallError, Output, Stop};

use super::report::Reason;

/// The result of a call that a check made.
pub(super) type TrialResult = Result<Output, CallError>;

/// Most characters that a reason quotes from a component.
const QUOTED: usize = 300;

/// Describes a result.
pub(super) fn describe(result: &TrialResult) -> String {
    match result {
        Ok(output) => format!("it answered {}", quoted(output.text())),
        Err(error @ CallError::Failed(failure)) => {
            let met = error.met_limit();
            let met = met.map_or_else(String::new, |met| format!(", and before that {met}"));
            format!("it failed with {}{met}", quoted(&failure.message))
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
        Stop::Time(_) => "answer in time: stop after a number of files or bytes, and say so",
        Stop::Memory(_) => "read a bounded number of bytes, and fail for larger files",
        Stop::Output(_) => "bound the size of the answer, and say that there is more",
        Stop::Trap(_) => {
            "a panic, an uncaught exception and an exit end a call like this: return a failure; \
             `--log info` shows what the tool printed before"
        }
        Stop::Handles(_) => "close one file before you open the next",
        Stop::DirectoryEntries(_) => "stop after a number of names, and say so",
        _ => "use less of it",
    }
}

/// Accepts an answer and the tool's own failure. Any other result is an error.
/// `context` begins the reason.
pub(super) fn answered_or_failed(result: &TrialResult, context: &str) -> Result<(), Reason> {
    let fix = match result {
        Ok(_) | Err(CallError::Failed(_)) => return Ok(()),
        Err(CallError::Stopped { stop, .. }) => advice(stop),
        Err(_) => "make the schema accept the arguments that the tool is for",
    };
    Err(Reason {
        why: format!("{context}: {}", describe(result)),
        fix: fix.to_owned(),
    })
}

/// Returns the start of a text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    Value::from(shortened(text)).to_string()
}

/// Returns the start of a text.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
