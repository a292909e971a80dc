//! The parts of reading a message that formats have in common: JSON's errors in our
//! words, parts that stay as they are written, and parts that must be there.

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::{Call, MessageError};

/// The longest reason, in characters. Guards against: a message that fills the log.
const LONGEST: usize = 300;

/// Reads a type from JSON.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, MessageError> {
    serde_json::from_str(json).map_err(|error| {
        // Some of these words quote the message.
        let reason = error.to_string().chars().take(LONGEST).collect();
        match error.classify() {
            Category::Data => MessageError::Shape(reason),
            _ => MessageError::NotJson(reason),
        }
    })
}

/// Returns the error that a message has a wrong shape.
pub(super) fn shape<T>(reason: impl Into<String>) -> Result<T, MessageError> {
    Err(MessageError::Shape(reason.into()))
}

/// Checks that a JSON text is an array.
pub(super) fn is_array(json: &str) -> bool {
    json.trim_start().starts_with('[')
}

/// Checks that a JSON text is a string.
pub(super) fn is_string(json: &str) -> bool {
    json.trim_start().starts_with('"')
}

/// Returns the only one of what a response offers to choose from.
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

/// Returns arguments that the format writes as JSON in a string. Anything but a string
/// is taken as it is: some servers write the object itself.
pub(super) fn arguments_in_string(raw: Option<&RawValue>) -> String {
    let written = raw.map_or("", RawValue::get);
    match serde_json::from_str::<String>(written) {
        Ok(text) => text,
        // A broken string, such as half a surrogate pair, is the call's error.
        Err(_) => written.to_owned(),
    }
}

/// Returns a call, which must have a name.
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

/// Returns an id that must be there.
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
