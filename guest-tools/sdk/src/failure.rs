//! Why a call has no output, by whose problem it is.

use alloc::format;
use alloc::string::{String, ToString as _};

use serde::Serialize;

use crate::bindings::tools::{self, FailureKind};
use crate::output::to_json;
use crate::{PathError, ReadError};

/// Why a call has no output: a kind, the message that the model reads, and a
/// record for programs.
#[derive(Debug, Clone)]
pub struct Failure {
    kind: FailureKind,
    message: String,
    details: Option<String>,
}

impl Failure {
    /// The arguments make no sense together; the caller can correct them.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidArguments, message)
    }

    /// What was named is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(FailureKind::NotFound, message)
    }

    /// What was asked for is allowed to nobody.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, message)
    }

    /// It is there, and cannot be given.
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Unreadable, message)
    }

    /// The tool could not do its work.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// A failure of any kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: None,
        }
    }

    /// Whose problem it is.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// What the model reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Puts the message in the form that a tool's contract gives it: with a
    /// prefix for the model, and in a record for programs.
    pub fn framed<R: Serialize>(self, prefix: &str, record: impl FnOnce(String) -> R) -> Self {
        Self {
            kind: self.kind,
            message: format!("{prefix}{}", self.message),
            details: Some(to_json(&record(self.message))),
        }
    }

    /// Adds the record that programs read.
    pub fn with(mut self, details: &impl Serialize) -> Self {
        self.details = Some(to_json(details));
        self
    }
}

impl From<Failure> for tools::Failure {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind,
            message: failure.message,
            details: failure.details,
        }
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}
