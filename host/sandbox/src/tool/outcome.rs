//! The ways in which a call can end: for the model, the program and the operator,
//! and in the words of the audit log and the metrics.

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
    /// Creates an answer from its text, its record as JSON, and the form that the
    /// model reads.
    pub fn new(text: impl Into<String>, details: Option<String>, model_reads: Form) -> Self {
        Self {
            text: text.into(),
            details,
            text_property: None,
            model_reads,
            files: None,
        }
    }

    /// Returns the files that the call made, changed and removed in its copy-on-write
    /// view of the skill. `None` if its grant has no such view.
    pub fn files(&self) -> Option<&OutputFiles> {
        self.files.as_ref()
    }

    /// Returns the record that the tool gave beside the text, as JSON.
    pub fn details(&self) -> Option<&str> {
        self.details.as_deref()
    }

    /// Returns the text. For most tools the model reads this.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the bytes that the answer takes in memory: its text, details and files.
    pub fn size(&self) -> usize {
        let details = self.details.as_ref().map_or(0, String::len);
        self.text.len() + details + self.files.as_ref().map_or(0, OutputFiles::size)
    }

    /// Returns what the model reads. Changed files are in the record, or in a list
    /// after the text.
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

    /// Returns what a program reads: the tool's record with the text in it, or
    /// `{"text": …}` for a tool without a record, and the changed files of a call with
    /// a copy-on-write view. It can be many times larger in
    /// memory than as JSON.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// Returns what a program reads, as JSON on one line.
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

/// The kind of a failure, from which follows what the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The caller can correct the arguments and call again.
    InvalidArguments,
    /// The thing that the call named does not exist.
    NotFound,
    /// Nobody is allowed what the call asked for.
    Refused,
    /// The thing exists, and the tool cannot answer with it.
    Unreadable,
    /// The tool could not do its work.
    Failed,
}

impl FailureKind {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::InvalidArguments,
        Self::NotFound,
        Self::Refused,
        Self::Unreadable,
        Self::Failed,
    ];

    /// Returns the word for it in the audit log and the metrics.
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

/// The tool's own answer that it has no output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The reason, in words.
    pub message: String,
    /// The skill that the call named, if no skill has that name.
    pub unknown_skill: Option<String>,
    /// The tool's record, as JSON.
    pub details: Option<String>,
    /// The limit that the tool met before it failed.
    pub met: Option<Box<Stop>>,
    /// The form that the model reads.
    pub model_reads: Form,
    /// Advice for the caller.
    pub help: Help,
}

impl Failure {
    /// Creates a failure whose message the model reads.
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

    /// Returns what a program reads: the tool's record, or `{"error": …}`.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// Returns what a program reads, as JSON on one line.
    pub fn record_json(&self) -> String {
        record::assemble_failure(self.details.as_deref(), &self.message)
    }
}

/// The ways in which a call ends without output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No tool has this name. No sandbox was started.
    #[error("unknown tool: '{name}'{}", did_you_mean(nearest, '\''))]
    UnknownTool {
        /// The name asked for.
        name: String,
        /// The tools with the most similar names, best first.
        nearest: Vec<String>,
    },
    /// The arguments do not fit the tool's schema. No sandbox was started.
    #[error("{0}")]
    Arguments(String),
    /// The tool answered that it has no output.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The host stopped the tool.
    #[error("the tool '{tool}' was stopped: {stop}")]
    Stopped {
        /// The tool that was stopped.
        tool: String,
        /// The reason.
        stop: Stop,
        /// What to try; see [`CallError::help`].
        help: Help,
    },
}

impl CallError {
    /// Returns the bytes of the texts that a caller or a guest chose, and of the record.
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

    /// Returns what the model reads: why the call failed, and what to try.
    pub fn model_text(&self) -> String {
        match self {
            Self::Failed(failure) => match failure.model_reads {
                Form::Text => failure.message.clone(),
                Form::Record => failure.record_json(),
            },
            other => format!("ERROR: {other}"),
        }
    }

    /// Returns what the host adds to a failure whose path or skill is wrong: what is
    /// there, and how to ask for it. At most 1 KB in a few lines, in which names are
    /// JSON strings without hidden characters. It stands beside what the model or a
    /// program reads, and in neither; see `HostBuilder::help`.
    ///
    /// The first time it reads folders, up to 10 ms long, and a caller that never asks
    /// does not pay for it.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Failed(Failure { help, .. }) | Self::Stopped { help, .. } => help.text(),
            Self::UnknownTool { .. } | Self::Arguments(_) => None,
        }
    }

    /// Returns the help for a model that reads text. A model that reads a record as
    /// JSON would find it beside the JSON, so there is none.
    pub fn model_help(&self) -> Option<&str> {
        match self {
            Self::Failed(failure) if failure.model_reads == Form::Record => None,
            error => error.help(),
        }
    }

    /// Returns what the operator reads of a tool that was stopped: the whole
    /// reason, and the key of the configuration that would change it. Do not show
    /// it to the model. The text may hold what a guest wrote: escape it for a
    /// terminal.
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

    /// Returns the limit that a tool met before it failed by itself, such as after an
    /// exception of Python for want of memory, and the key of the configuration that
    /// would change it. For the operator, as [`CallError::operator_text`].
    pub fn met_limit(&self) -> Option<String> {
        let Self::Failed(Failure {
            met: Some(stop), ..
        }) = self
        else {
            return None;
        };
        Some(format!("{stop}{}", stop.remedy()))
    }

    /// Returns what a program reads.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// Returns what a program reads, as JSON on one line.
    pub fn record_json(&self) -> String {
        match self {
            Self::Failed(failure) => failure.record_json(),
            other => record::assemble_failure(None, &other.to_string()),
        }
    }
}

/// The outcome of a call, as the audit log, observers and the metrics have it:
/// without names that a caller or a guest chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The tool answered.
    Output,
    /// The tool answered that it has no output.
    Failed(FailureKind),
    /// No sandbox was started.
    Refused(RefusalKind),
    /// The host stopped the tool.
    Stopped(StopKind),
    /// The caller gave the call up.
    Cancelled,
}

/// The reasons for which no sandbox is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// No tool has the name.
    UnknownTool,
    /// The arguments do not fit the tool's schema.
    Arguments,
}

impl CallOutcome {
    /// The words for outcomes in the audit log and the metrics.
    pub const NAMES: [&str; 5] = ["output", "failed", "refused", "stopped", "cancelled"];

    /// Returns the outcome of a call that ended with this result.
    pub fn of(result: &Result<Output, CallError>) -> Self {
        match result {
            Ok(_) => Self::Output,
            Err(CallError::Failed(failure)) => Self::Failed(failure.kind),
            Err(CallError::UnknownTool { .. }) => Self::Refused(RefusalKind::UnknownTool),
            Err(CallError::Arguments(_)) => Self::Refused(RefusalKind::Arguments),
            Err(CallError::Stopped { stop, .. }) => Self::Stopped(stop.kind()),
        }
    }

    /// Returns the word for it, one of [`NAMES`](CallOutcome::NAMES).
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

    /// Returns the word for the kind of failure, refusal or stop. There are a few
    /// dozen at most.
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
    fn the_size_of_an_error_has_all_that_a_guest_or_a_caller_wrote() {
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
