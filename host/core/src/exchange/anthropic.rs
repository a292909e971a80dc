//! Anthropic's Messages.

use serde::Deserialize;
use serde_json::{Value, json};

use super::parse::{call, items, parse, raw, required_id, wrong_shape};
use super::schema::root_object;
use super::{Answer, Call, MessageError};
use skillhost_sandbox::tool::Definition;
use skillhost_skills::text::raw_json::RawJson;

#[derive(Deserialize)]
#[serde(expecting = "an assistant message or its content")]
struct Message {
    role: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a content block")]
struct Block {
    r#type: String,
}

#[derive(Deserialize)]
#[serde(expecting = "a `tool_use` block")]
struct ToolUse {
    id: Option<String>,
    name: Option<String>,
}

pub(super) fn calls(text: &str) -> Result<Vec<Call>, MessageError> {
    let message = raw(text)?;
    let content = if message.is_array() {
        message
    } else {
        let Message { role } = parse(text)?;
        match (role.as_deref(), message.member("content")) {
            (Some("assistant"), Some(content)) => content,
            (Some("assistant"), None) => return wrong_shape("it has no `content`"),
            _ => return wrong_shape("its role is not `assistant`"),
        }
    };
    if content.get().starts_with('"') {
        return Ok(Vec::new());
    }
    let mut calls = Vec::new();
    for (index, block) in items(content, "content")?.into_iter().enumerate() {
        let place = || format!("`content[{index}]`");
        match parse::<Block>(block.get())?.r#type.as_str() {
            "tool_use" => {}
            "tool_result" => return wrong_shape("it has results, which no assistant message has"),
            // Ignore text, reasoning, and calls that the service itself runs.
            _ => continue,
        }
        let tool_use: ToolUse = parse(block.get())?;
        let id = required_id(tool_use.id, place, "id")?;
        let arguments = block.member("input").map_or("", RawJson::get).to_owned();
        calls.push(call(place, id, tool_use.name, arguments)?);
    }
    Ok(calls)
}

/// Returns all results in one message, as the API requires.
pub(super) fn message(answers: Vec<Answer>) -> Value {
    let results = answers.into_iter().map(|answer| {
        let mut result = json!({
            "type": "tool_result",
            "tool_use_id": answer.id,
            "content": answer.text,
        });
        if answer.failed {
            result["is_error"] = true.into();
        }
        result
    });
    json!({"role": "user", "content": results.collect::<Value>()})
}

pub(super) fn tool(definition: &Definition) -> Value {
    json!({
        "name": definition.name,
        "description": definition.description,
        "input_schema": root_object(&definition.input_schema),
    })
}
