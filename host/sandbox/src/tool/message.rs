//! The formats of calls in the contracts: the tool message, function definitions, and the
//! lines that show a call to a person.

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

/// Returns `[Tool Call] name(argument="value", …)`, for a person. Also escapes quotes in
/// names, so that a name cannot look like a value.
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

/// Returns `[Tool Result] …` with the text that the model reads, for a person. Further lines
/// are indented, so that no text looks like another call or result.
pub fn result_lines(model_text: &str) -> Vec<Line> {
    let text = format!("[Tool Result] {}", model_text.trim_end_matches('\n'));
    let mut lines = text.lines();
    let first = lines.next().map(Line::new);
    let further = lines.map(|line| Line::new(format_args!("    {line}")));
    first.into_iter().chain(further).collect()
}

/// Returns the text of a call's result for a model.
pub fn model_text(outcome: Result<Output, CallError>) -> String {
    match outcome {
        Ok(output) => output.into_model_text(),
        Err(error) => error.model_text(),
    }
}

/// Returns a call's result for a program, as JSON on one line.
pub fn program_text(outcome: &Result<Output, CallError>) -> String {
    match outcome {
        Ok(output) => output.record_json(),
        Err(error) => error.record_json(),
    }
}

/// Returns JSON on one line, with the contracts' spacing.
pub fn to_json(value: &Value) -> String {
    record::to_string(value)
}
