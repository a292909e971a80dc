//! Parsing that all formats share: verbatim parts, required ids, and errors for invalid JSON.

use serde::Deserialize;
use serde_json::error::Category;
use skillhost_skills::text::raw_json::RawJson;

use super::{Call, MessageError};

/// The maximum number of characters of a reason. Guards against: a message that fills the log.
const MAX_REASON_CHARS: usize = 300;

/// Parses a message as JSON whose parts stay verbatim.
pub(super) fn raw(json: &str) -> Result<RawJson<'_>, MessageError> {
    RawJson::new(json).map_err(json_error)
}

/// Returns the items of the value of `key`, which must be an array.
pub(super) fn items<'j>(value: RawJson<'j>, key: &str) -> Result<Vec<RawJson<'j>>, MessageError> {
    if !value.is_array() {
        return wrong_shape(format!("`{key}` is not an array"));
    }
    Ok(value.items().collect())
}

/// Deserialises a value from JSON.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, MessageError> {
    serde_json::from_str(json).map_err(json_error)
}

fn json_error(error: serde_json::Error) -> MessageError {
    // Some of these errors quote the message, which may be long.
    let reason = error.to_string().chars().take(MAX_REASON_CHARS).collect();
    match error.classify() {
        Category::Data => MessageError::Shape(reason),
        _ => MessageError::NotJson(reason),
    }
}

/// Returns the error for a message with a wrong structure.
pub(super) fn wrong_shape<T>(reason: impl Into<String>) -> Result<T, MessageError> {
    Err(MessageError::Shape(reason.into()))
}

/// Returns the only entry of `key`. A response can have several alternative messages.
pub(super) fn only<T>(mut entries: Vec<T>, key: &str) -> Result<T, MessageError> {
    match (entries.pop(), entries.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => wrong_shape(format!("`{key}` is empty")),
        (Some(_), others) => wrong_shape(format!(
            "`{key}` has {} entries, but only one can continue: pass only the one to continue with",
            others + 1
        )),
    }
}

/// Returns a call's arguments, which are JSON in a string.
///
/// Returns any other value as it is, because some servers write the object itself.
pub(super) fn arguments_in_string(value: Option<RawJson<'_>>) -> String {
    let json = value.map_or("", RawJson::get);
    match serde_json::from_str::<String>(json) {
        Ok(text) => text,
        // An invalid string, such as half a surrogate pair, becomes an error of the call.
        Err(_) => json.to_owned(),
    }
}

/// Returns a call. Fails if its name is missing.
pub(super) fn call(
    place: impl FnOnce() -> String,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
) -> Result<Call, MessageError> {
    let Some(name) = name else {
        return wrong_shape(format!("{} has no name", place()));
    };
    Ok(Call {
        id,
        name,
        arguments,
    })
}

/// Returns the id of a call. Fails if it is missing.
pub(super) fn required_id(
    id: Option<String>,
    place: impl FnOnce() -> String,
    key: &str,
) -> Result<Option<String>, MessageError> {
    match id {
        None => wrong_shape(format!("{} has no `{key}`", place())),
        id => Ok(id),
    }
}
