//! OpenAI's Responses.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::parse::{arguments_in_string, call, items, parse, raw, required_id, wrong_shape};
use super::schema::root_object;
use super::{Answer, Call, MessageError};
use skillhost_sandbox::tool::Definition;
use skillhost_skills::text::raw_json::RawJson;

#[derive(Deserialize)]
#[serde(expecting = "a response, its output, or an item of it")]
struct Response {
    r#type: Option<String>,
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "an item of a response's output")]
struct Item {
    r#type: String,
    role: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a function call")]
struct FunctionCall {
    call_id: Option<String>,
    name: Option<String>,
}

pub(super) fn calls(text: &str) -> Result<Vec<Call>, MessageError> {
    let message = raw(text)?;
    let items: Vec<RawJson<'_>> = if message.is_array() {
        items(message, "output")?
    } else {
        let response: Response = parse(text)?;
        match (response.r#type, message.member("output")) {
            // An object with a type is a single item.
            (Some(_), _) => vec![message],
            (None, Some(output)) => {
                if let Some(status) = response.status
                    && !matches!(status.as_str(), "completed" | "incomplete")
                {
                    return wrong_shape("the response is not completed");
                }
                items(output, "output")?
            }
            (None, None) => return wrong_shape("it has neither `output` nor a `type`"),
        }
    };
    let mut calls = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let place = || format!("item {index}");
        let Item { r#type, role } = parse(item.get())?;
        match r#type.as_str() {
            "function_call" => {}
            "error" => return wrong_shape("it is an error, not a response"),
            part if part.starts_with("response.") => {
                return wrong_shape("it is a part of a stream: give the whole response");
            }
            "message" if role.is_some_and(|role| role != "assistant") => {
                return wrong_shape(
                    "it has a message that is not the model's: give the items of the last response \
                     alone",
                );
            }
            "function_call_output" => {
                return wrong_shape(
                    "it has results already: give the items of the last response alone",
                );
            }
            // Text, reasoning, and calls that the service or the caller answers.
            _ => continue,
        }
        let function_call: FunctionCall = parse(item.get())?;
        let id = required_id(function_call.call_id, place, "call_id")?;
        let arguments = arguments_in_string(item.member("arguments"));
        calls.push(call(place, id, function_call.name, arguments)?);
    }
    Ok(calls)
}

pub(super) fn item(answer: Answer) -> Value {
    json!({
        "type": "function_call_output",
        "call_id": answer.id,
        "output": answer.text,
    })
}

/// Returns the tool in the format of the Responses API, in strict mode if `strict` holds a schema.
pub(super) fn tool(definition: &Definition, strict: Option<Map<String, Value>>) -> Value {
    // Always write `strict`: without this key, the service treats a definition as strict.
    let is_strict = strict.is_some();
    json!({
        "type": "function",
        "name": definition.name,
        "description": definition.description,
        "parameters": strict.unwrap_or_else(|| root_object(&definition.input_schema)),
        "strict": is_strict,
    })
}
