//! The type of a rule: its id, its severity, and texts for people.

use super::Severity;

/// A rule of `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The id, which is stable across releases.
    pub id: &'static str,
    /// The severity of the rule's findings. A finding may have another severity if the
    /// specification and its reference validator disagree.
    pub severity: Severity,
    /// The fault, in one sentence.
    pub description: &'static str,
    /// The reason to fix the fault, and how to fix it.
    pub help: &'static str,
}

impl Rule {
    /// Creates a rule whose findings are errors.
    pub(super) const fn error(
        id: &'static str,
        description: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(Severity::Error, id, description, help)
    }

    /// Creates a rule whose findings are warnings.
    pub(super) const fn warning(
        id: &'static str,
        description: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(Severity::Warning, id, description, help)
    }

    const fn new(
        severity: Severity,
        id: &'static str,
        description: &'static str,
        help: &'static str,
    ) -> Self {
        Self {
            id,
            severity,
            description,
            help,
        }
    }
}
