//! The table of rules. Each module with rules has a list `RULES`; [`RULE_SETS`] joins them.

use super::rule::Rule;

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

/// Returns all rules, in a stable order.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    RULE_SETS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rules_have_unique_ids_and_full_sentences() {
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
