//! Calls of one tool on the scratch skills.

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::component::{LimitedHost, TestedComponent};
use super::record::check_record;
use super::report::Reason;
use super::scratch::{FILE, SKILL, Scratch};
use super::wording::TrialResult;
use skillhost::{CallError, Definition, FailureKind, FolderRule, Host};

/// A tool, and arguments that match its schema.
pub(super) struct Trial<'a> {
    pub(super) tool: &'a Definition,
    pub(super) component: &'a TestedComponent,
    pub(super) scratch: &'a Scratch,
    /// Arguments for [`FILE`] of [`SKILL`].
    pub(super) sample: Map<String, Value>,
    /// The fault of the first record that did not match the output schema.
    pub(super) record_fault: RefCell<Option<Reason>>,
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
            record_fault: RefCell::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.tool.name
    }

    pub(super) fn folder_rule(&self) -> Option<&FolderRule> {
        self.tool.folder.as_ref()
    }

    /// Returns the sample with other values.
    pub(super) fn with(&self, values: &[(&str, &str)]) -> Map<String, Value> {
        let mut arguments = self.sample.clone();
        for (property, value) in values {
            arguments.insert((*property).to_owned(), (*value).into());
        }
        arguments
    }

    /// Returns the sample for [`FILE`] of another skill.
    pub(super) fn in_skill(&self, skill: &str) -> Option<Map<String, Value>> {
        let rule = self.folder_rule()?;
        let mut values = vec![(&*rule.skill_property, skill)];
        values.extend(rule.path_property.as_deref().map(|path| (path, FILE)));
        Some(self.with(&values))
    }

    /// Does what [`is_at_fault`] does.
    pub(super) async fn is_at_fault(&self, result: &TrialResult) -> bool {
        is_at_fault(&self.component.host, self.name(), result).await
    }

    /// Calls the tool with the run's own limits, and checks the record of its
    /// answer.
    pub(super) async fn call(&self, arguments: Map<String, Value>) -> TrialResult {
        let result = self.call_on(&self.component.host, arguments).await;
        if let Ok(output) = &result {
            let fault = check_record(self.tool, output).err();
            let mut first = self.record_fault.borrow_mut();
            *first = first.take().or(fault);
        }
        result
    }

    pub(super) async fn call_limited(
        &self,
        limited: &LimitedHost,
        arguments: Map<String, Value>,
    ) -> TrialResult {
        self.call_on(&limited.host, arguments).await
    }

    async fn call_on(&self, host: &Host, arguments: Map<String, Value>) -> TrialResult {
        host.call(self.name(), Value::Object(arguments)).await
    }
}

/// Returns whether a tool failed, and says that it is to blame itself. An uncaught
/// exception ends like this, too.
pub(super) async fn is_at_fault(host: &Host, tool: &str, result: &TrialResult) -> bool {
    let Err(CallError::Failed(failure)) = result else {
        return false;
    };
    let kinds = host.has_failure_kinds(tool).await;
    failure.kind == FailureKind::Failed && kinds.unwrap_or_default()
}

/// Makes arguments name the scratch skill, and its file if they hold a path.
pub(super) fn point_at_scratch(rule: Option<&FolderRule>, arguments: &mut Map<String, Value>) {
    let Some(rule) = rule else { return };
    arguments.insert(rule.skill_property.clone(), SKILL.into());
    if let Some(path) = &rule.path_property {
        arguments.insert(path.clone(), FILE.into());
    }
}
