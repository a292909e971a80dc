//! One tool under test: calls of it on the scratch skills, and what they end
//! in, in words.

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::records;
use super::report::Reason;
use super::scratch::{FILE, SKILL, Scratch};
use super::subject::{Limited, Subject};
use skillhost::Host;
use skillhost::{CallError, Definition, FolderRule, Output, Stop};

/// What a call ends in.
pub(super) type Ended = Result<Output, CallError>;

/// Most characters of what a component wrote that a reason quotes.
const QUOTED: usize = 300;

/// A tool, and arguments that fit it.
pub(super) struct Trial<'a> {
    pub(super) tool: &'a Definition,
    pub(super) subject: &'a Subject,
    pub(super) scratch: &'a Scratch,
    /// On the ordinary scratch skill, and in it the file that every skill has.
    pub(super) sample: Map<String, Value>,
    /// What was wrong with the first record that was not as promised.
    pub(super) misfit: RefCell<Option<Reason>>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        tool: &'a Definition,
        subject: &'a Subject,
        scratch: &'a Scratch,
        sample: Map<String, Value>,
    ) -> Self {
        Self {
            tool,
            subject,
            scratch,
            sample,
            misfit: RefCell::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.tool.name
    }

    pub(super) fn rule(&self) -> Option<&FolderRule> {
        self.tool.folder.as_ref()
    }

    /// The sample, with other values.
    pub(super) fn with(&self, values: &[(&str, &str)]) -> Map<String, Value> {
        let mut arguments = self.sample.clone();
        for (property, value) in values {
            arguments.insert((*property).to_owned(), (*value).into());
        }
        arguments
    }

    /// The sample on another skill, and there on the file that all have.
    pub(super) fn in_skill(&self, skill: &str) -> Option<Map<String, Value>> {
        let rule = self.rule()?;
        let mut values = vec![(&*rule.skill_property, skill)];
        values.extend(rule.path_property.as_deref().map(|path| (path, FILE)));
        Some(self.with(&values))
    }

    /// Whether the tool's failures say whose they are.
    pub(super) async fn tells_kinds(&self) -> bool {
        let kinds = self.subject.host.has_failure_kinds(self.name()).await;
        kinds.unwrap_or_default()
    }

    /// Calls the tool with the run's own limits. What it answers is looked at.
    pub(super) async fn call(&self, arguments: Map<String, Value>) -> Ended {
        let ended = self.call_on(&self.subject.host, arguments).await;
        if let Ok(output) = &ended {
            let misfit = records::misfit(self.tool, output).err();
            let mut first = self.misfit.borrow_mut();
            *first = first.take().or(misfit);
        }
        ended
    }

    pub(super) async fn call_limited(
        &self,
        limited: &Limited,
        arguments: Map<String, Value>,
    ) -> Ended {
        self.call_on(&limited.host, arguments).await
    }

    async fn call_on(&self, host: &Host, arguments: Map<String, Value>) -> Ended {
        host.call(self.name(), Value::Object(arguments)).await
    }
}

/// Puts the scratch skill into arguments, and a path in it.
pub(super) fn on_scratch(rule: Option<&FolderRule>, arguments: &mut Map<String, Value>) {
    let Some(rule) = rule else { return };
    arguments.insert(rule.skill_property.clone(), SKILL.into());
    if let Some(path) = &rule.path_property {
        arguments.insert(path.clone(), FILE.into());
    }
}

/// What a call ended in, in words for the component's author.
pub(super) fn in_words(ended: &Ended) -> String {
    match ended {
        Ok(output) => format!("it answered {}", quoted(output.text())),
        Err(CallError::Failed(failure)) => format!("it failed with {}", quoted(&failure.message)),
        Err(CallError::Arguments(message)) => {
            format!("the host refused the arguments: {}", bounded(message))
        }
        Err(CallError::Stopped {
            tool,
            stop: Stop::Trap(causes),
        }) => format!("`{tool}` broke off: {}", bounded(cause(causes))),
        Err(error) => bounded(&error.operator_text()),
    }
}

/// Why it broke off, without the addresses of its functions: a released
/// component has no names for them.
fn cause(causes: &str) -> &str {
    if !causes.contains("wasm backtrace:") {
        return causes;
    }
    let last = causes.rsplit('\n').next().unwrap_or(causes);
    let last = last
        .split_once(" - ")
        .map_or(last, |(_, function)| function);
    last.split_once(": ").map_or(last, |(_, cause)| cause)
}

/// What helps a tool that the host stopped.
pub(super) fn mend(stop: &Stop) -> &'static str {
    match stop {
        Stop::Time(_) => "answer in time: stop after so many files or bytes, and say so",
        Stop::Memory(_) => "read at most so many bytes of a file, and fail with what is larger",
        Stop::Output(_) => "answer with at most so many bytes, and say that there is more",
        Stop::Trap(_) => {
            "a panic, an uncaught exception or an exit ends a call like this: return a failure; \
             `--log info` shows what the tool printed before"
        }
        Stop::Handles(_) => "close what is open before the next is opened",
        Stop::DirectoryEntries(_) => "stop after so many names, and say so",
        _ => "need less of it",
    }
}

/// An answer or a failure of the tool's own; anything else is the reason.
pub(super) fn settled(ended: &Ended, of: &str) -> Result<(), Reason> {
    match ended {
        Ok(_) | Err(CallError::Failed(_)) => Ok(()),
        Err(CallError::Stopped { stop, .. }) => Err(Reason {
            why: format!("{of}: {}", in_words(ended)),
            mend: mend(stop).to_owned(),
        }),
        Err(_) => Err(Reason {
            why: format!("{of}: {}", in_words(ended)),
            mend: "see that the schema takes the arguments that the tool is for".to_owned(),
        }),
    }
}

/// A text as JSON has it, on one line and not too long.
pub(super) fn quoted(text: &str) -> String {
    let short = bounded(text);
    Value::from(short).to_string()
}

pub(super) fn bounded(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
