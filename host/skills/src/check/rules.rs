//! The table of rules: each has a stable id, a severity and texts for people.
//!
//! Each module of rules has a list `RULES`; [`RULE_SETS`] joins them.

use super::Severity;

/// The rules of each module. Add a module's list here.
const RULE_SETS: &[&[Rule]] = &[
    super::folder::RULES,
    super::RULES,
    super::name::RULES,
    super::disputes::RULES,
    super::hidden::RULES,
    super::hidden::document::RULES,
    super::links::RULES,
    super::linked::RULES,
    super::extensions::RULES,
    super::placeholders::RULES,
    super::contents::RULES,
];

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

/// Returns all rules, in a stable order.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    RULE_SETS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_rule_has_its_own_id_and_texts() {
        let mut ids = BTreeSet::new();
        for rule in rules() {
            let Rule {
                id,
                description,
                help,
                ..
            } = rule;
            assert!(ids.insert(id), "`{id}` is in the table twice");
            let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(id.chars().all(is_word), "{id}");
            assert!(description.ends_with('.'), "{id}: {description}");
            assert!(help.ends_with('.'), "{id}: {help}");
        }
    }
}
