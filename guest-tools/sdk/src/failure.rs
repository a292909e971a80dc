//! Failures of calls.

use alloc::format;
use alloc::string::{String, ToString as _};

use serde::Serialize;

use crate::bindings::tools::{self, FailureKind};
use crate::output::to_json;
use crate::{PathError, ReadError};

/// The failure of a call: its kind, a message that the model reads, and a
/// record for programs.
#[derive(Debug, Clone)]
pub struct Failure {
    kind: FailureKind,
    message: String,
    details: Option<String>,
}

impl Failure {
    /// Reports invalid arguments, which the caller can correct.
    pub fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidArguments, message)
    }

    /// Reports that something the call names does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(FailureKind::NotFound, message)
    }

    /// Reports a request that is not allowed.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, message)
    }

    /// Reports something that exists but cannot be read.
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Unreadable, message)
    }

    /// Reports that the tool could not do its work.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// Returns a failure of any kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: None,
        }
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns the message for the model.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Adds a prefix to the message for the model, and puts the message
    /// without the prefix into a record for programs.
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
