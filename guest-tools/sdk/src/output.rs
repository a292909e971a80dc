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
    /// An answer that is this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            details: None,
        }
    }

    /// An answer that is this record, with no text in it.
    pub fn record(details: &impl Serialize) -> Self {
        Self::text("").with(details)
    }

    /// Adds the record that programs read. It leaves the text out, or holds
    /// null where the text belongs: the host puts it there.
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

/// The JSON of a record. Serialising a plain struct cannot fail; one with a
/// failing `Serialize` of its own becomes null.
pub(crate) fn to_json(record: &impl Serialize) -> String {
    serde_json::to_string(record).unwrap_or_else(|_| "null".to_owned())
}
