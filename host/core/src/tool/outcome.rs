//! A tool as the host knows it, and what a call of it can end in. Nothing here
//! knows how tools are run.

use std::fmt;

use serde_json::{Map, Value};

use crate::text::suggest::did_you_mean;
use crate::text::toml::toml_key;
use crate::tool::record;

/// A tool: what an agent sees of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Definition {
    /// What an agent calls it: `[A-Za-z0-9_-]{1,64}`, unique in the host.
    pub name: String,
    /// What a person reads; the name, if the component gives none.
    pub title: String,
    /// What the tool does and when to use it, for the model.
    pub description: String,
    /// JSON Schema of the arguments object.
    pub input_schema: Map<String, Value>,
    /// JSON Schema of the program's form of an answer, if described.
    pub output_schema: Option<Map<String, Value>>,
    /// How the arguments choose the folder that a call may read.
    pub folder: Option<FolderRule>,
    /// The property of the program's form that holds the text.
    pub text_property: Option<String>,
    /// Which form of an answer the model reads.
    pub model_reads: Form,
}

impl Definition {
    /// Returns the schema of the record that an answer carries as structured
    /// content, if the model reads a record and not a text.
    pub fn structured_schema(&self) -> Option<&Map<String, Value>> {
        let reads_record = self.text_property.is_none() && self.model_reads == Form::Record;
        self.output_schema.as_ref().filter(|_| reads_record)
    }
}

/// How the arguments of a call choose the folder that it may read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderRule {
    /// The property that names the skill.
    pub skill_property: String,
    /// Whether the schema lists the skills' names at that property.
    pub enumerate: bool,
    /// The property that holds a path in the folder.
    pub path_property: Option<String>,
    /// Whether a call may leave the skill out: its path then says which folder.
    pub skill_optional: bool,
}

/// The two forms of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The text as it is.
    Text,
    /// The whole record, as JSON.
    Record,
}

/// A successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub(crate) text: String,
    pub(crate) details: Option<String>,
    pub(crate) text_property: Option<String>,
    pub(crate) model_reads: Form,
}

impl Output {
    /// Creates an answer: its text, its record as JSON, and which of both the model
    /// reads.
    pub fn new(text: impl Into<String>, details: Option<String>, model_reads: Form) -> Self {
        Self {
            text: text.into(),
            details,
            text_property: None,
            model_reads,
        }
    }

    /// Returns the record that the tool gave beside the text, as JSON.
    pub fn details(&self) -> Option<&str> {
        self.details.as_deref()
    }

    /// The text: for most tools, what the model reads.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the bytes that the answer takes in memory: its text and details.
    pub fn size(&self) -> usize {
        self.text.len() + self.details.as_ref().map_or(0, String::len)
    }

    /// What the model reads.
    pub fn into_model_text(self) -> String {
        match self.model_reads {
            Form::Text => self.text,
            Form::Record => self.record_json(),
        }
    }

    /// What a program reads: the tool's record with the text in it, or
    /// `{"text": …}` for a tool that gives none. It can be many times larger in
    /// memory than as JSON.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// What a program reads, as JSON on one line.
    pub fn record_json(&self) -> String {
        record::assemble(
            self.details.as_deref(),
            self.text_property.as_deref(),
            &self.text,
        )
    }
}

/// Whose problem a failure is, and so what the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The caller can correct the arguments and call again.
    InvalidArguments,
    /// What was named is not there.
    NotFound,
    /// What was asked for is allowed to nobody.
    Refused,
    /// It is there, and cannot be given.
    Unreadable,
    /// The tool could not do its work.
    Failed,
}

/// The tool's own answer that it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Whose problem it is.
    pub kind: FailureKind,
    /// Why, in words.
    pub message: String,
    /// The skill that the call named, where there is none of that name.
    pub unknown_skill: Option<String>,
    pub(crate) details: Option<String>,
    pub(crate) model_reads: Form,
}

impl Failure {
    /// Creates a failure whose message the model reads.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            unknown_skill: None,
            details: None,
            model_reads: Form::Text,
        }
    }

    /// What a program reads: the tool's record, or `{"error": …}`.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// What a program reads, as JSON on one line.
    pub fn record_json(&self) -> String {
        record::assemble_failure(self.details.as_deref(), &self.message)
    }
}

/// Why the host ended a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// It took longer than the time limit.
    Time(std::time::Duration),
    /// It wanted more memory than the limit, in bytes.
    Memory(usize),
    /// Its answer was larger than the limit, in bytes.
    Output(usize),
    /// It wanted more table elements than the limit.
    TableElements(usize),
    /// It consists of more core instances than the limit.
    Instances(usize),
    /// It has more tables than the limit.
    Tables(usize),
    /// It used more stack than the limit, in bytes.
    Stack(usize),
    /// It made the host allocate more than the limit, in bytes.
    HostcallFuel(usize),
    /// It wanted to hold more handles than the limit.
    Handles(usize),
    /// It wanted to list more directory entries than the limit.
    DirectoryEntries(usize),
    /// It was not started: its grant does not name this skill.
    NotGranted {
        /// The skill that the call named.
        skill: String,
        /// The component, as a grant names it.
        component: String,
    },
    /// It was not started: as many calls wait as may.
    Busy,
    /// It wanted more memory than was left to it of what all calls have.
    HostMemory,
    /// The audit log could not be written, so the answer is withheld.
    NotRecorded,
    /// It broke off: a panic, a stack overflow, an answer that is not UTF-8.
    /// The text is the chain of causes, for the operator.
    Trap(String),
}

impl Stop {
    /// Which kind it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Time(_) => "time",
            Self::Memory(_) => "memory",
            Self::Output(_) => "output",
            Self::TableElements(_) => "table-elements",
            Self::Instances(_) => "instances",
            Self::Tables(_) => "tables",
            Self::Stack(_) => "stack",
            Self::HostcallFuel(_) => "hostcall-fuel",
            Self::Handles(_) => "handles",
            Self::DirectoryEntries(_) => "directory-entries",
            Self::NotGranted { .. } => "not-granted",
            Self::Busy => "busy",
            Self::HostMemory => "host-memory",
            Self::NotRecorded => "not-recorded",
            Self::Trap(_) => "trap",
        }
    }

    /// The key of the configuration that would change it, if one would.
    fn key(&self) -> Option<String> {
        let key = match self {
            Self::Time(_) => "limits.time",
            Self::Memory(_) => "limits.memory",
            Self::Output(_) => "limits.output",
            Self::TableElements(_) => "limits.table_elements",
            Self::Instances(_) => "limits.instances",
            Self::Tables(_) => "limits.tables",
            Self::Stack(_) => "stack",
            Self::HostcallFuel(_) => "limits.hostcall_fuel",
            Self::Handles(_) => "limits.handles",
            Self::DirectoryEntries(_) => "limits.directory_entries",
            Self::Busy => "calls",
            Self::NotGranted { component, .. } => {
                return Some(format!("grants.{}.skills", toml_key(component)));
            }
            Self::HostMemory => "calls_memory",
            Self::NotRecorded => "audit",
            Self::Trap(_) => return None,
        };
        Some(key.to_owned())
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(limit) => write!(f, "it took longer than {limit:?}"),
            Self::Memory(limit) => write!(f, "it needed more than {limit} bytes of memory"),
            Self::Output(limit) => write!(f, "its answer was larger than {limit} bytes"),
            Self::TableElements(limit) => write!(f, "it needed more than {limit} table elements"),
            Self::Instances(limit) => write!(f, "it consists of more than {limit} core instances"),
            Self::Tables(limit) => write!(f, "it needed more than {limit} tables"),
            Self::Stack(limit) => write!(f, "it needed more than {limit} bytes of stack"),
            Self::HostcallFuel(limit) => {
                write!(f, "it handed the host more than {limit} bytes at once")
            }
            Self::Handles(limit) => write!(f, "it held more than {limit} handles"),
            Self::DirectoryEntries(limit) => {
                write!(f, "it listed more than {limit} directory entries")
            }
            Self::NotGranted { skill, .. } => write!(f, "it may not read the skill '{skill}'"),
            Self::Busy => f.write_str("the host is busy, try again"),
            Self::HostMemory => f.write_str("the host is short of memory, try again"),
            Self::NotRecorded => f.write_str("its call could not be recorded"),
            Self::Trap(_) => f.write_str("it broke off before it answered"),
        }
    }
}

/// How a call ends without output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no such tool. No sandbox was started.
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
    /// The tool answered that it cannot.
    #[error("{}", .0.message)]
    Failed(Failure),
    /// The host stopped the tool.
    #[error("the tool '{tool}' was stopped: {stop}")]
    Stopped {
        /// The tool that was stopped.
        tool: String,
        /// Why.
        stop: Stop,
    },
}

impl CallError {
    /// What the model reads: why it failed, and what to try.
    pub fn model_text(&self) -> String {
        match self {
            Self::Failed(failure) => match failure.model_reads {
                Form::Text => failure.message.clone(),
                Form::Record => failure.record_json(),
            },
            other => format!("ERROR: {other}"),
        }
    }

    /// What the operator reads of a tool that was stopped: the whole reason, and
    /// the key of the configuration that would change it. It is nothing for the
    /// model. The text may hold what a guest wrote: escape it for a terminal.
    pub fn operator_text(&self) -> String {
        match self {
            Self::Stopped { tool, stop } => {
                let more = match (stop, stop.key()) {
                    (Stop::Trap(causes), _) => format!(": {causes}"),
                    (_, Some(key)) => format!("; `{key}` in skillhost.toml would change it"),
                    (_, None) => String::new(),
                };
                format!("the tool `{tool}` was stopped: {stop}{more}")
            }
            other => other.to_string(),
        }
    }

    /// What a program reads.
    pub fn record(&self) -> Value {
        serde_json::from_str(&self.record_json()).unwrap_or_default()
    }

    /// What a program reads, as JSON on one line.
    pub fn record_json(&self) -> String {
        match self {
            Self::Failed(failure) => failure.record_json(),
            other => record::assemble_failure(None, &other.to_string()),
        }
    }
}
