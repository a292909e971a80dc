//! Calls one tool on the scratch skills.

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::component::{LimitedHost, TestedComponent};
use super::record_check::check_record;
use super::report::Reason;
use super::scratch::{FILE, SKILL, Scratch};
use super::wording::CallResult;
use skillhost::{CallError, Definition, FailureKind, FolderRule, Host};

/// A tool under test, with valid sample arguments.
pub(super) struct Trial<'a> {
    pub(super) tool: &'a Definition,
    pub(super) component: &'a TestedComponent,
    pub(super) scratch: &'a Scratch,
    /// Valid arguments that name [`FILE`] of [`SKILL`].
    pub(super) sample: Map<String, Value>,
    /// The problem of the first invalid record.
    pub(super) record_error: RefCell<Option<Reason>>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        tool: &'a Definition,
        component: &'a TestedComponent,
        scratch: &'a Scratch,
        sample: Map<String, Value>,
    ) -> Self {
        Self {
            tool,
            component,
            scratch,
            sample,
            record_error: RefCell::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.tool.name
    }

    pub(super) fn folder_rule(&self) -> Option<&FolderRule> {
        self.tool.folder.as_ref()
    }

    /// Returns the sample arguments with these values for these properties.
    pub(super) fn with(&self, values: &[(&str, &str)]) -> Map<String, Value> {
        let mut arguments = self.sample.clone();
        for (property, value) in values {
            arguments.insert((*property).to_owned(), (*value).into());
        }
        arguments
    }

    /// Returns the sample arguments for [`FILE`] of another skill.
    ///
    /// Returns `None` if the tool reads no skill.
    pub(super) fn in_skill(&self, skill: &str) -> Option<Map<String, Value>> {
        let rule = self.folder_rule()?;
        let mut values = vec![(&*rule.skill_property, skill)];
        values.extend(rule.path_property.as_deref().map(|path| (path, FILE)));
        Some(self.with(&values))
    }

    /// Returns whether this tool failed with the kind `failed`, like [`is_tool_fault`].
    pub(super) async fn is_tool_fault(&self, result: &CallResult) -> bool {
        is_tool_fault(&self.component.host, self.name(), result).await
    }

    /// Calls the tool with the limits of the run, and checks the record of its answer.
    pub(super) async fn call(&self, arguments: Map<String, Value>) -> CallResult {
        let result = self.call_on(&self.component.host, arguments).await;
        if let Ok(output) = &result {
            let error = check_record(self.tool, output).err();
            let mut first_error = self.record_error.borrow_mut();
            *first_error = first_error.take().or(error);
        }
        result
    }

    /// Calls the tool with one small limit.
    pub(super) async fn call_limited(
        &self,
        limited: &LimitedHost,
        arguments: Map<String, Value>,
    ) -> CallResult {
        self.call_on(&limited.host, arguments).await
    }

    async fn call_on(&self, host: &Host, arguments: Map<String, Value>) -> CallResult {
        host.call(self.name(), Value::Object(arguments)).await
    }
}

/// Returns whether a tool failed with the kind `failed`, which means that the tool is at fault.
///
/// An uncaught exception also ends with this kind. The failure of a typed function has no kind of
/// its own, so the result is then `false`.
pub(super) async fn is_tool_fault(host: &Host, tool: &str, result: &CallResult) -> bool {
    let Err(CallError::Failed(failure)) = result else {
        return false;
    };
    let kinds = host.has_failure_kinds(tool).await;
    failure.kind == FailureKind::Failed && kinds.unwrap_or_default()
}

/// Changes arguments so that they name the scratch skill and, if the tool has a property for a
/// path, the skill's file.
pub(super) fn use_scratch_skill(rule: Option<&FolderRule>, arguments: &mut Map<String, Value>) {
    let Some(rule) = rule else { return };
    arguments.insert(rule.skill_property.clone(), SKILL.into());
    if let Some(path) = &rule.path_property {
        arguments.insert(path.clone(), FILE.into());
    }
}
