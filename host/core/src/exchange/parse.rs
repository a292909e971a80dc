//! Parsing that all formats share: verbatim and required parts, and errors for invalid JSON.

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

/// Returns the items of a part, which must be an array.
pub(super) fn items<'j>(part: RawJson<'j>, what: &str) -> Result<Vec<RawJson<'j>>, MessageError> {
    if !part.is_array() {
        return shape(format!("`{what}` is not an array"));
    }
    Ok(part.items().collect())
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
pub(super) fn shape<T>(reason: impl Into<String>) -> Result<T, MessageError> {
    Err(MessageError::Shape(reason.into()))
}

/// Returns the only choice of a response.
pub(super) fn only<T>(mut many: Vec<T>, what: &str) -> Result<T, MessageError> {
    match (many.pop(), many.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => shape(format!("`{what}` is empty")),
        (Some(_), others) => shape(format!(
            "`{what}` has {} entries, but only one can continue: pass only the one to continue with",
            others + 1
        )),
    }
}

/// Returns a call's arguments, which are JSON in a string.
///
/// Returns any other value as it is, because some servers write the object itself.
pub(super) fn arguments_in_string(written: Option<RawJson<'_>>) -> String {
    let written = written.map_or("", RawJson::get);
    match serde_json::from_str::<String>(written) {
        Ok(text) => text,
        // An invalid string, such as half a surrogate pair, becomes an error of the call.
        Err(_) => written.to_owned(),
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
        return shape(format!("{} has no name", place()));
    };
    Ok(Call {
        id,
        name,
        arguments,
    })
}

/// Returns the id of a call. Fails if it is missing.
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
