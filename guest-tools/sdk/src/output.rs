//! A successful answer.

use alloc::borrow::ToOwned as _;
use alloc::string::String;

use serde::Serialize;

use crate::bindings::tools;

/// A successful answer: a text, and a record for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    text: String,
    details: Option<String>,
}

impl Output {
    /// Returns an answer with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            details: None,
        }
    }

    /// Returns an answer with this record and an empty text.
    pub fn record(details: &impl Serialize) -> Self {
        Self::text("").with(details)
    }

    /// Adds the record that programs read. The record leaves the text property out, or
    /// sets it to null: the host fills it in.
    pub fn with(mut self, details: &impl Serialize) -> Self {
        self.details = Some(to_json(details));
        self
    }
}

impl From<Output> for tools::Output {
    fn from(output: Output) -> Self {
        Self {
            text: output.text,
            details: output.details,
        }
    }
}

/// Returns the JSON of a record, or `null` if its `Serialize` fails. A derived `Serialize`
/// cannot fail.
pub(crate) fn to_json(record: &impl Serialize) -> String {
    serde_json::to_string(record).unwrap_or_else(|_| "null".to_owned())
}
