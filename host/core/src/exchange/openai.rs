//! OpenAI's chat completions.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::parse::{arguments_in_string, call, items, only, parse, raw, required_id, wrong_shape};
use super::schema::root_object;
use super::{Answer, Call, MessageError};
use skillhost_sandbox::tool::Definition;
use skillhost_sandbox::tool::message;
use skillhost_skills::text::raw_json::RawJson;

#[derive(Deserialize)]
#[serde(expecting = "a chat completion or its assistant message")]
struct Message {
    role: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
    function_call: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(expecting = "a tool call")]
struct ToolCall {
    id: Option<String>,
    r#type: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
#[serde(expecting = "a function call")]
struct Function {
    name: Option<String>,
}

pub(super) fn calls(text: &str) -> Result<Vec<Call>, MessageError> {
    let completion = raw(text)?;
    let raw_message = match completion.member("choices") {
        None => completion,
        Some(choices) => match only(items(choices, "choices")?, "choices")?.member("message") {
            Some(message) => message,
            None => {
                return wrong_shape(
                    "the choice has no `message`; parts of a stream are not accepted",
                );
            }
        },
    };
    let message: Message = parse(raw_message.get())?;
    match message.role.as_deref() {
        Some("assistant") => {}
        None if message.tool_calls.is_some() => {}
        None => return wrong_shape("it has neither `choices` nor the role `assistant`"),
        Some(_) => return wrong_shape("its role is not `assistant`"),
    }
    if message.function_call.is_some() {
        return wrong_shape("it has `function_call`, which is obsolete: `tool_calls` is expected");
    }
    let mut calls = Vec::new();
    let tool_calls = message.tool_calls.into_iter().flatten();
    let raw_calls = raw_message.member("tool_calls").map(RawJson::items);
    let raw_calls = raw_calls.into_iter().flatten();
    for (index, (tool_call, raw_call)) in tool_calls.zip(raw_calls).enumerate() {
        let place = || format!("`tool_calls[{index}]`");
        if tool_call.r#type.is_some_and(|kind| kind != "function") {
            // The embedder offers tools of other types itself, and answers their calls.
            continue;
        }
        let Some(function) = tool_call.function else {
            return wrong_shape(format!("{} has no `function`", place()));
        };
        let id = required_id(tool_call.id, place, "id")?;
        let raw_function = raw_call.member("function");
        let arguments = raw_function.and_then(|function| function.member("arguments"));
        let arguments = arguments_in_string(arguments);
        calls.push(call(place, id, function.name, arguments)?);
    }
    Ok(calls)
}

pub(super) fn message(answer: Answer) -> Value {
    let id = answer.id.unwrap_or_default();
    message::tool_message(&id, &answer.name, &answer.text)
}

/// Returns the tool in the format of chat completions, in strict mode if `strict` holds a schema.
pub(super) fn tool(definition: &Definition, strict: Option<Map<String, Value>>) -> Value {
    let is_strict = strict.is_some();
    let mut tool = json!({
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": strict.unwrap_or_else(|| root_object(&definition.input_schema)),
        },
    });
    if is_strict {
        tool["function"]["strict"] = true.into();
    }
    tool
}
