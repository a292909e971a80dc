//! What became of each check, and of the run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Progress, Rule};

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The component, as it was named.
    pub component: String,
    /// The tools that it has; none where it cannot be loaded.
    pub tools: Vec<String>,
    /// What was checked, in order.
    pub checks: Vec<Check>,
    /// The files of cases that were written anew.
    pub written: Vec<PathBuf>,
}

/// One check, of the component, of a tool or of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The rule's name.
    pub id: &'static str,
    /// What holds where it passes.
    pub sentence: &'static str,
    /// The tool that it is about.
    pub tool: Option<String>,
    /// The author's case that it is.
    pub case: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// How long it took.
    pub time: Duration,
}

/// What became of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not.
    Failed(Reason),
    /// It was not tried, because there is nothing to try it on.
    Skipped(Reason),
}

/// Why a check did not pass. Both texts may hold what a component wrote: escape
/// them for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// What was seen.
    pub why: String,
    /// What to do about it; empty where there is nothing to do.
    pub mend: String,
}

impl Report {
    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        let checks = self.checks.iter();
        checks.filter(|check| matches!(check.outcome, Outcome::Failed(_)))
    }

    /// How many checks passed, failed, and were skipped.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |is: fn(&Outcome) -> bool| {
            let outcomes = self.checks.iter().map(|check| &check.outcome);
            outcomes.filter(|outcome| is(outcome)).count()
        };
        (
            count(|outcome| *outcome == Outcome::Passed),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
            count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        )
    }
}

impl Outcome {
    pub(super) fn failed(why: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Failed(Reason {
            why: why.into(),
            mend: mend.into(),
        })
    }

    pub(super) fn skipped(why: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Skipped(Reason {
            why: why.into(),
            mend: mend.into(),
        })
    }
}

impl From<Result<(), Reason>> for Outcome {
    fn from(result: Result<(), Reason>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

/// Takes down what becomes of checks.
pub(super) struct Recorder {
    progress: Option<Arc<Progress>>,
    checks: Vec<Check>,
}

impl Recorder {
    pub(super) fn new(progress: Option<Arc<Progress>>) -> Self {
        Self {
            progress,
            checks: Vec::new(),
        }
    }

    /// Runs a check of the component, or of one of its tools.
    pub(super) async fn check(
        &mut self,
        rule: &Rule,
        tool: Option<&str>,
        outcome: impl Future<Output = impl Into<Outcome>>,
    ) -> &Outcome {
        self.record(rule, tool, None, outcome).await
    }

    /// Runs a case of the author's.
    pub(super) async fn case(
        &mut self,
        rule: &Rule,
        tool: &str,
        case: &str,
        outcome: impl Future<Output = impl Into<Outcome>>,
    ) {
        self.record(rule, Some(tool), Some(case), outcome).await;
    }

    async fn record(
        &mut self,
        rule: &Rule,
        tool: Option<&str>,
        case: Option<&str>,
        outcome: impl Future<Output = impl Into<Outcome>>,
    ) -> &Outcome {
        if let Some(progress) = &self.progress {
            progress(rule.id, case.or(tool));
        }
        let start = Instant::now();
        let outcome = outcome.await.into();
        self.checks.push(Check {
            id: rule.id,
            sentence: rule.sentence,
            tool: tool.map(str::to_owned),
            case: case.map(str::to_owned),
            outcome,
            time: start.elapsed(),
        });
        &self.checks[self.checks.len() - 1].outcome
    }

    pub(super) fn report(self, component: &Path, tools: Vec<String>) -> Report {
        Report {
            component: component.display().to_string(),
            tools,
            checks: self.checks,
            written: Vec::new(),
        }
    }
}
