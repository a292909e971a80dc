//! What the formats have in common when a message is read: JSON's errors in
//! our words, parts that are left as they are written, and what must be there.

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::{Call, MessageError};

/// Longest reason, in characters. Meets: a message that fills the log.
const LONGEST: usize = 300;

/// Reads a type from JSON.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, MessageError> {
    serde_json::from_str(json).map_err(|error| {
        // What stands in the message is in some of these words.
        let reason = error.to_string().chars().take(LONGEST).collect();
        match error.classify() {
            Category::Data => MessageError::Shape(reason),
            _ => MessageError::NotJson(reason),
        }
    })
}

/// Says that a message is not what it should be.
pub(super) fn shape<T>(reason: impl Into<String>) -> Result<T, MessageError> {
    Err(MessageError::Shape(reason.into()))
}

/// Whether a JSON text is an array, and whether it is a string.
pub(super) fn is_array(json: &str) -> bool {
    json.trim_start().starts_with('[')
}

/// See [`is_array`].
pub(super) fn is_string(json: &str) -> bool {
    json.trim_start().starts_with('"')
}

/// The only one of several that a response offers to choose from.
pub(super) fn only<T>(mut many: Vec<T>, what: &str) -> Result<T, MessageError> {
    match (many.pop(), many.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => shape(format!("`{what}` is empty")),
        (Some(_), others) => shape(format!(
            "`{what}` has {}, and only one can go on: give its message alone",
            others + 1
        )),
    }
}

/// Arguments that the format writes as JSON in a string. What is no string is
/// taken as it is: some servers write the object itself.
pub(super) fn arguments_in_string(raw: Option<&RawValue>) -> String {
    let written = raw.map_or("", RawValue::get);
    match serde_json::from_str::<String>(written) {
        Ok(text) => text,
        // A string that is none, like half a surrogate pair, is left for the
        // model to be told of.
        Err(_) => written.to_owned(),
    }
}

/// A call, with what its result will need.
pub(super) fn call(
    place: impl FnOnce() -> String,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
) -> Result<Call, MessageError> {
    let Some(name) = name else {
        return shape(format!("{} has no name", place()));
    };
    Ok(Call {
        id,
        name,
        arguments,
    })
}

/// An id that has to be there.
pub(super) fn required(
    id: Option<String>,
    place: impl FnOnce() -> String,
    key: &str,
) -> Result<Option<String>, MessageError> {
    match id {
        None => shape(format!("{} has no `{key}`", place())),
        id => Ok(id),
    }
}
