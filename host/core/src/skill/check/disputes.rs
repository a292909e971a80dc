//! Where the specification and its reference validator (`skills-ref`) disagree, and
//! which of them decides.

use super::Finding;
use crate::skill::frontmatter::{Problem, ProblemKind, Split};

/// Says that the specification decides where its reference validator accepts.
pub(super) const BY_SPECIFICATION: &str =
    "(by the specification; its reference validator accepts it)";

/// Says that the reference validator decides where the specification does not.
pub(super) const BY_VALIDATOR: &str =
    "(by the reference validator; the specification does not say)";

/// Returns which text decides that a problem is one, if only one of them says so.
pub(super) fn decides(problem: &Problem) -> &'static str {
    // The validator checks no other types.
    let types = ["`name`", "`description`", "`compatibility`"];
    match problem.kind {
        ProblemKind::DuplicateKey | ProblemKind::Braces => BY_VALIDATOR,
        ProblemKind::NotText | ProblemKind::ToolList => BY_SPECIFICATION,
        ProblemKind::WrongType if !types.iter().any(|key| problem.message.starts_with(key)) => {
            BY_SPECIFICATION
        }
        _ => "",
    }
}

/// Returns the findings for what only the reference validator refuses, because it splits
/// the file before it reads YAML: it wants `---` as the very first characters, and ends
/// the frontmatter at the next `---`, wherever that is.
pub(super) fn findings(text: &str, split: &Split<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if text.starts_with('\u{feff}') {
        let message =
            format!("the file starts with a byte order mark: leave it out {BY_VALIDATOR}");
        findings.push(Finding::warning("byte-order-mark", Some(1), message));
    }
    let yaml = split.yaml.unwrap_or_default();
    if let Some(at) = yaml.find("---") {
        let lines = yaml[..at].matches('\n').count();
        let line = u32::try_from(lines).unwrap_or(u32::MAX);
        let message = format!("`---` in the frontmatter ends it: leave it out {BY_VALIDATOR}");
        let line = Split::YAML_LINE.saturating_add(line);
        findings.push(Finding::warning("frontmatter-dashes", Some(line), message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::frontmatter;

    #[test]
    fn names_what_only_the_validator_refuses() {
        for (text, expected) in [
            ("---\nname: a\n---\nx --- y", &[][..]),
            (
                "\u{feff}---\nname: a\n---\n",
                &[("byte-order-mark", Some(1))],
            ),
            (
                "---\nname: a\ndescription: a --- b\n---\n",
                &[("frontmatter-dashes", Some(3))],
            ),
        ] {
            let found = findings(text, &frontmatter::split(text));
            let found: Vec<_> = found.iter().map(|found| (found.rule, found.line)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
