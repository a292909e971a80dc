//! The report on a component, and the recorder that collects the outcomes of checks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tracer::Tracer;

/// The id of a check, and the property that it tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The id, such as `paths-contained`. It never changes.
    pub id: &'static str,
    /// The property, in a sentence that is true if the check passes.
    pub sentence: &'static str,
}

/// A function that is called before each check, with the check's id and the name of its tool or
/// case.
pub(super) type CheckProgress = dyn Fn(&str, Option<&str>) + Send + Sync;

/// The report on a component.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The component, as the caller named it.
    pub component: String,
    /// The component's tools. Empty if the host cannot load the component.
    pub tools: Vec<String>,
    /// The checks, in the order in which they ran.
    pub checks: Vec<Check>,
    /// The case files that the run rewrote.
    pub written: Vec<PathBuf>,
}

/// One check of the component, of a tool or of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The rule's id.
    pub id: &'static str,
    /// The property, in a sentence that is true if the check passes.
    pub sentence: &'static str,
    /// The tool's name. `None` if the check is about the whole component.
    pub tool: Option<String>,
    /// The name of the author's case, if the check runs a case.
    pub case: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// The lines that explain the last failed call, if the check failed.
    ///
    /// They show what the tool printed and the place of a trap. Escape the lines for a terminal.
    pub trace: Vec<String>,
    /// The time that the check took.
    pub time: Duration,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The property holds.
    Passed,
    /// The property does not hold.
    Failed(Reason),
    /// The check does not apply to this component or tool, or could not run.
    Skipped(Reason),
}

/// The reason why a check did not pass.
///
/// Both texts may contain a component's output: escape them for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The cause.
    pub why: String,
    /// The advice to the component's author. It may be empty.
    pub fix: String,
}

impl Report {
    /// Returns the checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        let checks = self.checks.iter();
        checks.filter(|check| matches!(check.outcome, Outcome::Failed(_)))
    }

    /// Returns the numbers of checks that passed, failed, and were skipped.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |matches: fn(&Outcome) -> bool| {
            let outcomes = self.checks.iter().map(|check| &check.outcome);
            outcomes.filter(|outcome| matches(outcome)).count()
        };
        (
            count(|outcome| *outcome == Outcome::Passed),
            count(|outcome| matches!(outcome, Outcome::Failed(_))),
            count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        )
    }
}

impl Outcome {
    pub(super) fn failed(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Failed(Reason {
            why: why.into(),
            fix: fix.into(),
        })
    }

    pub(super) fn skipped(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Skipped(Reason {
            why: why.into(),
            fix: fix.into(),
        })
    }
}

impl From<Result<(), Reason>> for Outcome {
    fn from(result: Result<(), Reason>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

/// A recorder. It runs checks and keeps their outcomes.
pub(super) struct Recorder {
    progress: Option<Arc<CheckProgress>>,
    tracer: Option<Arc<Tracer>>,
    checks: Vec<Check>,
}

impl Recorder {
    pub(super) fn new(progress: Option<Arc<CheckProgress>>, tracer: Option<Arc<Tracer>>) -> Self {
        Self {
            progress,
            tracer,
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

    /// Records the checks that have not yet run for this tool as skipped.
    pub(super) async fn skip_rest(&mut self, rules: &[&[Rule]], tool: &str, why: &str) {
        for rule in rules.iter().copied().flatten() {
            let matches_rule =
                |check: &Check| check.id == rule.id && check.tool.as_deref() == Some(tool);
            if !self.checks.iter().any(matches_rule) {
                let outcome = Outcome::skipped(why, "");
                self.check(rule, Some(tool), async { outcome }).await;
            }
        }
    }

    /// Runs one of the author's cases.
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
        let tracer = self.tracer.as_ref();
        tracer.inspect(|tracer| tracer.clear());
        let start = Instant::now();
        let outcome = outcome.await.into();
        let time = start.elapsed();
        let trace = match (&outcome, tracer) {
            (Outcome::Failed(_), Some(tracer)) => tracer.explain(),
            _ => Vec::new(),
        };
        self.checks.push(Check {
            id: rule.id,
            sentence: rule.sentence,
            tool: tool.map(str::to_owned),
            case: case.map(str::to_owned),
            outcome,
            trace,
            time,
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
