//! What a function gave, as a tool answers: a text for the model, and a record
//! for programs.

use serde_json::{Map, Value, json};
use wasmtime::component::Val;

use super::lift;
use super::shape::Shape;
use crate::tool::Stop;

/// The property of a program's record that holds what is no record itself.
pub(super) const RESULT: &str = "result";

/// What a function gave: an answer, or why there is none.
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) details: Option<String>,
}

/// An answer: a string is the text, everything else is JSON. A record is what a
/// program reads, too, and anything else is a property of it.
pub(super) fn given(
    shape: Option<&Shape>,
    value: Option<&Val>,
    limit: usize,
) -> Result<Given, Stop> {
    let (text, details) = match (shape, value) {
        (Some(Shape::String), Some(Val::String(text))) if text.len() > limit => {
            return Err(Stop::Output(limit));
        }
        (Some(Shape::String), Some(Val::String(text))) => (text.clone(), None),
        (Some(shape @ Shape::Record(_)), Some(value)) => {
            (String::new(), Some(lift::to_json(shape, value, limit)?))
        }
        (Some(shape), Some(value)) => {
            let json = lift::to_json(shape, value, limit)?;
            let details = format!("{{\"{RESULT}\": {json}}}");
            (json, Some(details))
        }
        _ => ("null".to_owned(), Some(format!("{{\"{RESULT}\": null}}"))),
    };
    Ok(Given { text, details })
}

/// Why there is no answer: in the words of a string, or as JSON.
pub(super) fn reason(
    shape: Option<&Shape>,
    value: Option<&Val>,
    limit: usize,
) -> Result<Given, Stop> {
    let (text, details) = match (shape, value) {
        (Some(Shape::String), Some(Val::String(text))) if text.len() > limit => {
            return Err(Stop::Output(limit));
        }
        (Some(Shape::String), Some(Val::String(text))) => (text.clone(), None),
        (Some(shape), Some(value)) => {
            let json = lift::to_json(shape, value, limit)?;
            let details = format!("{{\"error\": {json}}}");
            (json, Some(details))
        }
        _ => ("the tool failed, and does not say why".to_owned(), None),
    };
    Ok(Given { text, details })
}

/// The schema of a record with this in it.
pub(super) fn in_result(schema: Value) -> Map<String, Value> {
    let field = json!({
        "type": "object",
        "properties": {RESULT: schema},
        "required": [RESULT],
        "additionalProperties": false,
    });
    match field {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
