//! The result of a function as a tool's answer: a text for models, and a record for
//! programs.

use serde_json::{Map, Value, json};
use wasmtime::component::Val;

use super::lift;
use super::shape::Shape;
use crate::tool::Stop;

/// The property of the record for a result that is not itself a record.
pub(super) const RESULT: &str = "result";

/// The answer of a function, or its failure.
pub(crate) struct FunctionAnswer {
    pub(crate) text: String,
    pub(crate) details: Option<String>,
}

/// Converts a result. Models read a string unchanged, and any other value as JSON. Programs
/// get a record unchanged, and any other value as a property of a record.
pub(super) fn success(
    shape: Option<&Shape>,
    value: Option<&Val>,
    limit: usize,
) -> Result<FunctionAnswer, Stop> {
    let (text, details) = match (shape, value) {
        (Some(Shape::String), Some(Val::String(text))) if text.len() > limit => {
            return Err(Stop::Output(limit));
        }
        (Some(Shape::String), Some(Val::String(text))) => (text.clone(), None),
        (Some(shape @ Shape::Record(_)), Some(value)) => {
            (String::new(), Some(lift::to_json(shape, value, limit)?))
        }
        (Some(shape), Some(value)) => text_and_record(RESULT, shape, value, limit)?,
        _ => ("null".to_owned(), Some(format!("{{\"{RESULT}\": null}}"))),
    };
    Ok(FunctionAnswer { text, details })
}

/// Converts an error. A string becomes the message unchanged, and any other value as JSON.
pub(super) fn failure(
    shape: Option<&Shape>,
    value: Option<&Val>,
    limit: usize,
) -> Result<FunctionAnswer, Stop> {
    let (text, details) = match (shape, value) {
        (Some(Shape::String), Some(Val::String(text))) if text.len() > limit => {
            return Err(Stop::Output(limit));
        }
        (Some(Shape::String), Some(Val::String(text))) => (text.clone(), None),
        (Some(shape), Some(value)) => text_and_record("error", shape, value, limit)?,
        _ => ("the tool failed without saying why".to_owned(), None),
    };
    Ok(FunctionAnswer { text, details })
}

/// Converts a value to JSON, and to a record with the value in this property. The limit applies
/// to both together.
fn text_and_record(
    property: &str,
    shape: &Shape,
    value: &Val,
    limit: usize,
) -> Result<(String, Option<String>), Stop> {
    let json = lift::to_json(shape, value, limit)?;
    let record = format!("{{\"{property}\": {json}}}");
    if json.len() + record.len() <= limit {
        Ok((json, Some(record)))
    } else {
        Err(Stop::Output(limit))
    }
}

/// Returns the schema of a record whose property [`RESULT`] has this schema.
pub(super) fn result_schema(schema: Value) -> Map<String, Value> {
    let record = json!({
        "type": "object",
        "properties": {RESULT: schema},
        "required": [RESULT],
        "additionalProperties": false,
    });
    match record {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
