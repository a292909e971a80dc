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
        ProblemKind::NotText => BY_SPECIFICATION,
        ProblemKind::ToolList => {
            "(by the specification; its reference validator accepts a list on several lines)"
        }
        ProblemKind::WrongType if !types.iter().any(|key| problem.message.starts_with(key)) => {
            BY_SPECIFICATION
        }
        _ => "",
    }
}

/// Returns the findings for what the reference validator reads in another way, because it
/// splits the file before it reads YAML: it wants `---` as the very first characters, and
/// ends the frontmatter at the next `---`, wherever that is.
pub(super) fn findings(text: &str, split: &Split<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |rule, line, message: &str| {
        findings.push(Finding::warning(rule, Some(line), message.to_owned()));
    };
    if text.starts_with('\u{feff}') {
        let message = "the file starts with a byte order mark, which only the reference \
                       validator refuses: leave it out";
        add("byte-order-mark", 1, message);
    }
    let Some(yaml) = split.yaml.filter(|yaml| !yaml.is_empty()) else {
        return findings;
    };
    let line_at = |at: usize| {
        let lines = yaml[..at].matches('\n').count();
        Split::YAML_LINE.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX))
    };
    if let Some(at) = yaml.find("---") {
        let message = "`---` is in the frontmatter, and the reference validator ends it there: \
                       leave it out";
        add("frontmatter-dashes", line_at(at), message);
    }
    let rest = text.split_once(yaml).map(|(_, rest)| rest.trim_start());
    if rest.is_some_and(|rest| rest.starts_with("...")) {
        let message = "the frontmatter is closed by `...`, which only the reference validator \
                       refuses: write `---`";
        add("frontmatter-dots", line_at(yaml.len()), message);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::frontmatter;

    #[test]
    fn names_what_the_validator_reads_in_another_way() {
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
            ("---\nname: a\n...\n... x", &[("frontmatter-dots", Some(3))]),
            ("---\n---\n...", &[]),
        ] {
            let found = findings(text, &frontmatter::split(text));
            let found: Vec<_> = found.iter().map(|found| (found.rule, found.line)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
