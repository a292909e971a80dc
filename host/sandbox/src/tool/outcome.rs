//! The outcomes of calls: their texts for models, programs and operators, and their names
//! in the audit log and the metrics.

use serde_json::Value;

use crate::tool::definition::Form;
use crate::tool::help::Help;
use crate::tool::output_files::OutputFiles;
use crate::tool::record;
use crate::tool::stop::{Stop, StopKind};
use skillhost_skills::text::suggest::did_you_mean;

/// A successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    #[doc(hidden)]
    pub text: String,
    #[doc(hidden)]
    pub details: Option<String>,
    #[doc(hidden)]
    pub text_property: Option<String>,
    pub(crate) model_reads: Form,
    #[doc(hidden)]
    pub files: Option<OutputFiles>,
}

impl Output {
    /// Creates an answer from its text, its record as JSON, and the form for models.
    pub fn new(text: impl Into<String>, details: Option<String>, model_reads: Form) -> Self {
        Self {
            text: text.into(),
            details,
            text_property: None,
            model_reads,
            files: None,
        }
    }

    /// Returns the files that the call created, changed or removed in its copy-on-write
    /// view. Returns `None` without such a view.
    pub fn files(&self) -> Option<&OutputFiles> {
        self.files.as_ref()
    }

    /// Returns the tool's record beside the text, as JSON.
    pub fn details(&self) -> Option<&str> {
        self.details.as_deref()
    }

    /// Returns the text, which is what models read for most tools.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the size of the answer in memory: text, details and files.
    pub fn size(&self) -> usize {
        let details = self.details.as_ref().map_or(0, String::len);
        self.text.len() + details + self.files.as_ref().map_or(0, OutputFiles::size)
    }

    /// Returns the text for models. Changed files are in the record, or in a list after the
    /// text.
    pub fn into_model_text(self) -> String {
        if self.model_reads == Form::Record {
            return self.record_json();
        }
        let mut text = self.text;
        if let Some(list) = self.files.as_ref().and_then(OutputFiles::list) {
            match text.as_str() {
                "" => {}
                before if before.ends_with('\n') => text.push('\n'),
                _ => text.push_str("\n\n"),
            }
            text.push_str(&list);
        }
        text
    }

    /// Returns the answer for programs.
    ///
    /// It is the tool's record with the text in it, or `{"text": …}` for a tool without a
    /// record, and the changed files of a copy-on-write view. The returned value can take many
    /// times the memory of its JSON.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// Returns the answer for programs, as JSON on one line.
    pub fn record_json(&self) -> String {
        record::assemble(
            self.details.as_deref(),
            self.text_property.as_deref(),
            &self.text,
            &self
                .files
                .as_ref()
                .map_or_else(Vec::new, OutputFiles::fields),
        )
    }
}

/// The kind of a failure, which tells the caller what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The caller can correct the arguments and call again.
    InvalidArguments,
    /// The named object does not exist.
    NotFound,
    /// The request is not allowed for anybody.
    Refused,
    /// The object exists, but the tool cannot answer with it.
    Unreadable,
    /// The tool itself failed.
    Failed,
}

impl FailureKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::InvalidArguments,
        Self::NotFound,
        Self::Refused,
        Self::Unreadable,
        Self::Failed,
    ];

    /// Returns the name in the audit log and the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArguments => "invalid-arguments",
            Self::NotFound => "not-found",
            Self::Refused => "refused",
            Self::Unreadable => "unreadable",
            Self::Failed => "failed",
        }
    }
}

/// A failure that a tool reports instead of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The message.
    pub message: String,
    /// The skill that the call named, if that skill does not exist.
    pub unknown_skill: Option<String>,
    /// The tool's record, as JSON.
    pub details: Option<String>,
    /// A limit that the tool reached before it failed.
    pub met: Option<Box<Stop>>,
    /// The form for models.
    pub model_reads: Form,
    /// Advice for the caller.
    pub help: Help,
}

impl Failure {
    /// Creates a failure with a message for models.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            unknown_skill: None,
            details: None,
            met: None,
            model_reads: Form::Text,
            help: Help::default(),
        }
    }

    /// Returns the failure for programs: the tool's record, or `{"error": …}`.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// Returns the failure for programs, as JSON on one line.
    pub fn record_json(&self) -> String {
        record::assemble_failure(self.details.as_deref(), &self.message)
    }
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The tool does not exist. No sandbox was started.
    #[error("unknown tool: '{name}'{}", did_you_mean(nearest, '\''))]
    UnknownTool {
        /// The requested name.
        name: String,
        /// The most similar names of tools, best first.
        nearest: Vec<String>,
    },
    /// The arguments do not match the tool's schema. No sandbox was started.
    #[error("{0}")]
    Arguments(String),
    /// The tool answered with a failure.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The host stopped the tool.
    #[error("the tool '{tool}' was stopped: {stop}")]
    Stopped {
        /// The stopped tool.
        tool: String,
        /// The reason.
        stop: Stop,
        /// The help; see [`CallError::help`].
        help: Help,
    },
}

impl CallError {
    /// Returns the size in bytes of all texts from the caller or the guest, and of the record.
    pub fn size(&self) -> usize {
        match self {
            Self::Failed(failure) => {
                let details = failure.details.as_ref().map_or(0, String::len);
                failure.message.len() + details
            }
            Self::UnknownTool { name, .. } => name.len(),
            Self::Arguments(message) => message.len(),
            Self::Stopped { .. } => 0,
        }
    }

    /// Returns the text for models: the reason why the call failed, and what to try.
    pub fn model_text(&self) -> String {
        match self {
            Self::Failed(failure) => match failure.model_reads {
                Form::Text => failure.message.clone(),
                Form::Record => failure.record_json(),
            },
            other => format!("ERROR: {other}"),
        }
    }

    /// Returns the host's help for a failure with a wrong path or skill: what exists, and
    /// how to ask for it.
    ///
    /// The help is a few lines of at most 1 KB together. Names in it are JSON strings without
    /// hidden characters. The texts for models and programs do not contain it; see
    /// `HostBuilder::help`.
    ///
    /// The first call of this method reads folders for up to 10 ms.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Failed(Failure { help, .. }) | Self::Stopped { help, .. } => help.text(),
            Self::UnknownTool { .. } | Self::Arguments(_) => None,
        }
    }

    /// Returns the help for models that read text. Returns `None` for models that read a
    /// record as JSON.
    pub fn model_help(&self) -> Option<&str> {
        match self {
            Self::Failed(failure) if failure.model_reads == Form::Record => None,
            error => error.help(),
        }
    }

    /// Returns the operator's text for a stopped tool: the whole reason, and the
    /// configuration key that could prevent the stop.
    ///
    /// Do not show it to a model. It can contain text from a guest: escape it for a terminal.
    pub fn operator_text(&self) -> String {
        match self {
            Self::Stopped { tool, stop, .. } => {
                let more = match stop {
                    Stop::Trap(causes) => format!(": {causes}"),
                    _ => stop.remedy(),
                };
                format!("the tool `{tool}` was stopped: {stop}{more}")
            }
            other => other.to_string(),
        }
    }

    /// Returns the limit that a tool reached before it failed by itself, for example with
    /// Python's `MemoryError`, and the limit's configuration key. It is for the operator, like
    /// [`CallError::operator_text`].
    pub fn met_limit(&self) -> Option<String> {
        let Self::Failed(Failure {
            met: Some(stop), ..
        }) = self
        else {
            return None;
        };
        Some(format!("{stop}{}", stop.remedy()))
    }

    /// Returns the error for programs.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// Returns the error for programs, as JSON on one line.
    pub fn record_json(&self) -> String {
        match self {
            Self::Failed(failure) => failure.record_json(),
            other => record::assemble_failure(None, &other.to_string()),
        }
    }
}

/// The outcome of a call for the audit log, observers and metrics, without text from the
/// caller or the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The tool answered.
    Output,
    /// The tool answered with a failure.
    Failed(FailureKind),
    /// No sandbox was started.
    Refused(RefusalKind),
    /// The host stopped the tool.
    Stopped(StopKind),
    /// The caller cancelled the call.
    Cancelled,
}

/// The reason why no sandbox was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The tool does not exist.
    UnknownTool,
    /// The arguments do not match the tool's schema.
    Arguments,
}

impl CallOutcome {
    /// The names of outcomes in the audit log and the metrics.
    pub const NAMES: [&str; 5] = ["output", "failed", "refused", "stopped", "cancelled"];

    /// Returns the outcome of a call's result.
    pub fn of(result: &Result<Output, CallError>) -> Self {
        match result {
            Ok(_) => Self::Output,
            Err(CallError::Failed(failure)) => Self::Failed(failure.kind),
            Err(CallError::UnknownTool { .. }) => Self::Refused(RefusalKind::UnknownTool),
            Err(CallError::Arguments(_)) => Self::Refused(RefusalKind::Arguments),
            Err(CallError::Stopped { stop, .. }) => Self::Stopped(stop.kind()),
        }
    }

    /// Returns the name, one of [`NAMES`](CallOutcome::NAMES).
    pub fn name(self) -> &'static str {
        let [output, failed, refused, stopped, cancelled] = Self::NAMES;
        match self {
            Self::Output => output,
            Self::Failed(_) => failed,
            Self::Refused(_) => refused,
            Self::Stopped(_) => stopped,
            Self::Cancelled => cancelled,
        }
    }

    /// Returns the name of the kind of failure, refusal or stop. There are at most a few dozen
    /// names.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Output | Self::Cancelled => None,
            Self::Failed(kind) => Some(kind.name()),
            Self::Refused(RefusalKind::UnknownTool) => Some("unknown-tool"),
            Self::Refused(RefusalKind::Arguments) => Some("arguments"),
            Self::Stopped(kind) => Some(kind.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_size_counts_texts_of_guest_and_caller() {
        let mut failure = Failure::new(FailureKind::Failed, "x".repeat(500));
        failure.details = Some("y".repeat(70));
        let arguments = "z".repeat(300);
        let unknown = CallError::UnknownTool {
            name: "n".repeat(200),
            nearest: Vec::new(),
        };
        for (error, size) in [
            (CallError::Failed(failure), 570),
            (CallError::Arguments(arguments), 300),
            (unknown, 200),
        ] {
            assert_eq!(error.size(), size, "{error}");
        }
    }
}
