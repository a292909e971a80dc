//! Google's Gemini. Reads keys in camel case and in snake case, because Google's libraries write
//! both. Writes camel case.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::parse::{call, items, only, parse, raw, wrong_shape};
use super::schema::{gemini_subset, root_object};
use super::{Answer, Call, MessageError};
use skillhost_sandbox::tool::Definition;
use skillhost_skills::text::raw_json::RawJson;

#[derive(Deserialize)]
#[serde(expecting = "a response or a content of the role `model`")]
struct Content {
    role: Option<String>,
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a part")]
struct Part {
    #[serde(alias = "functionCall")]
    function_call: Option<FunctionCall>,
    #[serde(alias = "functionResponse")]
    function_response: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(expecting = "a function call")]
struct FunctionCall {
    id: Option<String>,
    name: Option<String>,
}

pub(super) fn calls(text: &str) -> Result<Vec<Call>, MessageError> {
    let response = raw(text)?;
    let candidates = response.member("candidates");
    let is_response = candidates.is_some();
    let feedback = ["promptFeedback", "prompt_feedback"];
    let raw_content = match candidates {
        Some(candidates) => {
            let candidates = items(candidates, "candidates")?;
            match only(candidates, "candidates")?.member("content") {
                Some(content) => content,
                // Without content there are no calls. A filter may have stopped the model.
                None => return Ok(Vec::new()),
            }
        }
        None if feedback.iter().any(|name| response.member(name).is_some()) => {
            return wrong_shape("the prompt was refused: there is no candidate");
        }
        None => response,
    };
    let content: Content = parse(raw_content.get())?;
    match (content.role.as_deref(), &content.parts) {
        (Some("model"), _) | (None, Some(_)) => {}
        // A response may have no parts, for example after a malformed call.
        (None, None) if is_response => {}
        (None, None) => return wrong_shape("it has neither `candidates` nor `parts`"),
        (Some(_), _) => return wrong_shape("its role is not `model`"),
    }
    let mut calls = Vec::new();
    let parts = content.parts.into_iter().flatten();
    let raw_parts = raw_content.member("parts").map(RawJson::items);
    for (index, (part, raw_part)) in parts.zip(raw_parts.into_iter().flatten()).enumerate() {
        if part.function_response.is_some() {
            return wrong_shape("it has results, which a model's content never has");
        }
        if let Some(function_call) = part.function_call {
            let place = || format!("`parts[{index}]`");
            let names = ["functionCall", "function_call"].into_iter();
            let raw_call = names.filter_map(|name| raw_part.member(name)).next();
            let arguments = raw_call.and_then(|call| call.member("args"));
            let arguments = arguments.map_or("", RawJson::get).to_owned();
            calls.push(call(
                place,
                function_call.id,
                function_call.name,
                arguments,
            )?);
        }
    }
    Ok(calls)
}

/// Returns all results in one content. They have the order of the calls, because ids may be
/// missing.
pub(super) fn content(answers: Vec<Answer>) -> Value {
    let parts = answers.into_iter().map(|answer| {
        let mut response = Map::new();
        if let Some(id) = answer.id {
            response.insert("id".to_owned(), id.into());
        }
        response.insert("name".to_owned(), answer.name.into());
        let key = if answer.failed { "error" } else { "output" };
        response.insert("response".to_owned(), json!({key: answer.text}));
        json!({"functionResponse": response})
    });
    json!({"role": "user", "parts": parts.collect::<Value>()})
}

/// Returns one tool with all functions as declarations.
pub(super) fn tools(definitions: &[Definition]) -> Value {
    if definitions.is_empty() {
        return json!([]);
    }
    let declarations: Value = definitions.iter().map(declaration).collect();
    json!([{"functionDeclarations": declarations}])
}

fn declaration(definition: &Definition) -> Value {
    let mut declaration = Map::new();
    declaration.insert("name".to_owned(), definition.name.as_str().into());
    let description = definition.description.as_str();
    declaration.insert("description".to_owned(), description.into());
    let schema = root_object(&definition.input_schema);
    let has_no_properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .is_none_or(Map::is_empty);
    // The API refuses an object without properties, but accepts a function without parameters.
    if !(has_no_properties
        && schema
            .get("additionalProperties")
            .is_none_or(|more| more == false))
    {
        match gemini_subset(&schema) {
            Some(subset) => declaration.insert("parameters".to_owned(), subset.into()),
            None => declaration.insert("parametersJsonSchema".to_owned(), schema.into()),
        };
    }
    declaration.into()
}
