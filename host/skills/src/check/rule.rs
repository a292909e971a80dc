//! A rule: its id, its severity, and texts for people.

use super::Severity;

/// A rule of `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The id, which is stable across releases.
    pub id: &'static str,
    /// The severity of its findings. Some findings of a rule may have another one, if the
    /// specification and its reference validator disagree on the case.
    pub severity: Severity,
    /// What a finding of the rule says, in one sentence.
    pub description: &'static str,
    /// Why it matters, and how to fix it.
    pub help: &'static str,
}

impl Rule {
    /// Creates a rule whose findings are errors.
    pub(super) const fn error(
        id: &'static str,
        description: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            id,
            severity: Severity::Error,
            description,
            help,
        }
    }

    /// Creates a rule whose findings are warnings.
    pub(super) const fn warning(
        id: &'static str,
        description: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            id,
            severity: Severity::Warning,
            description,
            help,
        }
    }
}
