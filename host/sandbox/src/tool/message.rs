//! The shapes in which calls travel: the contracts' tool message, their
//! function definitions, and the lines that show a call to a person.

use serde_json::{Value, json};

use crate::tool::record;
use crate::tool::{CallError, Definition, Output};
use skillhost_skills::text::line::Line;

/// Returns the tool message that answers a model's call: `role`, `tool_call_id`,
/// `name`, `content`.
pub fn tool_message(id: &str, tool: &str, content: &str) -> Value {
    json!({
        "role": "tool",
        "tool_call_id": id,
        "name": tool,
        "content": content,
    })
}

/// Returns a definition in the contracts' function format.
pub fn function(definition: &Definition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": definition.input_schema,
        },
    })
}

/// Returns `[Tool Call] name(argument="value", …)`, for a person who watches. It
/// escapes quotes in names, too: no name can pass for a value.
pub fn call_line(tool: &str, arguments: &Value) -> Line {
    let arguments: Vec<String> = match arguments {
        Value::Object(arguments) => arguments
            .iter()
            .map(|(name, value)| format!("{}={}", name.escape_debug(), record::to_string(value)))
            .collect(),
        other => vec![record::to_string(other)],
    };
    Line::new(format_args!(
        "[Tool Call] {}({})",
        tool.escape_debug(),
        arguments.join(", ")
    ))
}

/// Returns what the model reads as `[Tool Result] …`, for a person who watches.
/// Further lines are indented, so that a text cannot pass for a line of ours.
pub fn result_lines(model_text: &str) -> Vec<Line> {
    let text = format!("[Tool Result] {}", model_text.trim_end_matches('\n'));
    let mut lines = text.lines();
    let first = lines.next().map(Line::new);
    let further = lines.map(|line| Line::new(format_args!("    {line}")));
    first.into_iter().chain(further).collect()
}

/// Returns what the model reads of a call's result.
pub fn model_text(outcome: Result<Output, CallError>) -> String {
    match outcome {
        Ok(output) => output.into_model_text(),
        Err(error) => error.model_text(),
    }
}

/// Returns what a program reads of a call's result, as JSON on one line.
pub fn program_text(outcome: &Result<Output, CallError>) -> String {
    match outcome {
        Ok(output) => output.record_json(),
        Err(error) => error.record_json(),
    }
}

/// Returns JSON on one line, in the contracts' spacing.
pub fn to_json(value: &Value) -> String {
    record::to_string(value)
}
