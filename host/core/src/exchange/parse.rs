//! Parsing that all formats share: values whose text stays unchanged, required ids, and errors for
//! invalid JSON.

use serde::Deserialize;
use serde_json::error::Category;
use skillhost_skills::text::raw_json::RawJson;

use super::{Call, MessageError};

/// The maximum number of characters of the reason in an error. Guards against: an error that quotes
/// a large message, and so fills the log.
const MAX_REASON_CHARS: usize = 300;

/// Parses a message as JSON, and keeps the text of each value unchanged.
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

/// Returns the only entry in the list of `key`. Fails if there is no entry or more than one: a
/// response can have several alternative messages.
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
/// Returns the text of any other value unchanged, because some servers write an object in place of
/// the string.
pub(super) fn arguments_in_string(value: Option<RawJson<'_>>) -> String {
    let json = value.map_or("", RawJson::get);
    match serde_json::from_str::<String>(json) {
        Ok(text) => text,
        // The call then fails with an error for an invalid string, such as one with half a
        // surrogate pair.
        Err(_) => json.to_owned(),
    }
}

/// Returns a call. Fails if the name of the tool is missing.
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
