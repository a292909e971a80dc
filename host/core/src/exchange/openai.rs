//! OpenAI's chat completions.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::parse::{arguments_in_string, call, only, parse, required, shape};
use super::schema::root_object;
use super::{Answer, Call, MessageError};
use skillhost_sandbox::tool::Definition;
use skillhost_sandbox::tool::message;

#[derive(Deserialize)]
#[serde(expecting = "a chat completion or its assistant message")]
struct Completion<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a choice")]
struct Choice<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an assistant message")]
struct Message<'a> {
    role: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
    function_call: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(expecting = "a tool call")]
struct ToolCall<'a> {
    id: Option<String>,
    r#type: Option<String>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a function call")]
struct Function<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

pub(super) fn calls(text: &str) -> Result<Vec<Call>, MessageError> {
    let completion: Completion<'_> = parse(text)?;
    let message = match completion.choices {
        None => text,
        Some(choices) => match only(choices, "choices")?.message {
            Some(message) => message.get(),
            None => return shape("the choice has no `message`; a stream's parts are none"),
        },
    };
    let message: Message<'_> = parse(message)?;
    match message.role.as_deref() {
        Some("assistant") => {}
        None if message.tool_calls.is_some() => {}
        None => return shape("it has neither `choices` nor the role `assistant`"),
        Some(_) => return shape("its role is not `assistant`"),
    }
    if message.function_call.is_some() {
        return shape("it has `function_call`, which `tool_calls` came in place of");
    }
    let mut calls = Vec::new();
    for (index, tool_call) in message.tool_calls.into_iter().flatten().enumerate() {
        let place = || format!("`tool_calls[{index}]`");
        if tool_call.r#type.is_some_and(|kind| kind != "function") {
            // Of a kind that the caller offered, and so answers.
            continue;
        }
        let Some(function) = tool_call.function else {
            return shape(format!("{} has no `function`", place()));
        };
        let id = required(tool_call.id, place, "id")?;
        let arguments = arguments_in_string(function.arguments);
        calls.push(call(place, id, function.name, arguments)?);
    }
    Ok(calls)
}

pub(super) fn message(answer: Answer) -> Value {
    let id = answer.id.unwrap_or_default();
    message::tool_message(&id, &answer.name, &answer.text)
}

/// Returns a definition, strict with its schema for strict mode.
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
