//! Rules on which the specification and its reference validator (`skills-ref`) disagree, and notes
//! that say which one decides.

use super::{Finding, MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS, Rule};
use crate::frontmatter::{Frontmatter, KEYS, Problem, ProblemKind, Reading, Split};

/// The note on a rule of the specification that its reference validator does not check.
pub(super) const BY_SPECIFICATION: &str =
    "(by the specification; its reference validator accepts it)";

/// The note on a rule of the reference validator that the specification does not have.
pub(super) const BY_VALIDATOR: &str =
    "(by the reference validator; the specification does not say)";

/// The rules for text that only the reference validator refuses or reads differently.
pub(super) const RULES: &[Rule] = &[
    Rule::warning(
        "byte-order-mark",
        "SKILL.md starts with a byte order mark.",
        "Save the file as UTF-8 without it. The reference validator finds no frontmatter after it.",
    ),
    Rule::warning(
        "line-ends",
        "The lines end in CR alone.",
        "Write LF. Most programs read the file as one line.",
    ),
    Rule::warning(
        "frontmatter-dashes",
        "The frontmatter contains `---`, or has blanks or text beside the `---` that ends it.",
        "Leave `---` out, or write it alone on the last line. The reference validator ends the \
         frontmatter at the first one.",
    ),
    Rule::warning(
        "frontmatter-dots",
        "The frontmatter is closed by `...`.",
        "Write `---`.",
    ),
    Rule::warning(
        "yaml-tab",
        "A tab is before the text of a line or after a key.",
        "Write a blank. The reference validator refuses tabs there.",
    ),
    Rule::warning(
        "yaml-merge",
        "The frontmatter has the merge key `<<`.",
        "Write the keys themselves. Programs disagree about its meaning.",
    ),
    Rule::warning(
        "yaml-escape",
        "An escape stands for half of a surrogate pair.",
        "Write the character itself.",
    ),
];

/// Returns the note on a problem, or an empty text if both the specification and the
/// validator have the rule.
pub(super) fn deciding_note(problem: &Problem) -> &'static str {
    // The keys whose types the validator checks.
    let typed = ["`name`", "`description`", "`compatibility`"];
    match problem.kind {
        ProblemKind::DuplicateKey | ProblemKind::Braces => BY_VALIDATOR,
        ProblemKind::NotText => BY_SPECIFICATION,
        // These are the parser's messages about quoted text, which the validator accepts.
        ProblemKind::NotYaml
            if [
                "tab cannot be used as indentation",
                "multiline quoted scalar",
            ]
            .iter()
            .any(|text| problem.message.contains(text)) =>
        {
            "(by YAML; the reference validator accepts it)"
        }
        ProblemKind::ToolList => {
            "(by the specification; its reference validator accepts a list on several lines)"
        }
        ProblemKind::WrongType if !typed.iter().any(|key| problem.message.starts_with(key)) => {
            "(by the specification; its reference validator does not check it)"
        }
        _ => "",
    }
}

/// Returns findings for text that the reference validator parses differently.
///
/// The validator splits the file before parsing YAML: `---` must be the very first characters, and
/// the next `---` anywhere ends the frontmatter. It also supports less of YAML.
pub(super) fn findings(text: &str, reading: &Reading<'_>) -> Vec<Finding> {
    let split = &reading.split;
    let mut findings = Vec::new();
    let mut add = |rule, line, message: &str| {
        findings.push(Finding::warning(rule, Some(line), message.to_owned()));
    };
    if text.starts_with('\u{feff}') {
        let message = "the file starts with a byte order mark, which only the reference \
                       validator refuses: leave it out";
        add("byte-order-mark", 1, message);
    }
    if text.starts_with("---\r") && !text.starts_with("---\r\n") {
        let message = "the lines end in CR alone, which only the reference validator reads as \
                       line ends: write LF";
        add("line-ends", 1, message);
    }
    let mut after_first = split.body.lines().zip(1..).skip(1);
    if split.unclosed
        && let Some((_, line)) = after_first.find(|(line, _)| line.trim_start().starts_with("---"))
    {
        let message = "the reference validator ends the frontmatter at this `---`: write it on a \
                       line of its own, without blanks before it";
        add("frontmatter-dashes", line, message);
    }
    let Some(yaml) = split.yaml.filter(|yaml| !yaml.is_empty()) else {
        return findings;
    };
    yaml_findings(text, yaml, reading, &mut add);
    length_findings(yaml, &reading.frontmatter, &mut add);
    findings
}

/// Adds findings for YAML that the reference validator splits or parses differently.
fn yaml_findings(
    text: &str,
    yaml: &str,
    reading: &Reading<'_>,
    add: &mut impl FnMut(&'static str, u32, &str),
) {
    let line_at = |at: usize| {
        let lines = yaml[..at].matches('\n').count();
        Split::YAML_LINE.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX))
    };
    if let Some(at) = yaml.find("---") {
        let starts_line = yaml[..at].ends_with('\n');
        let advice = if starts_line {
            "write it alone on its line, or leave it out"
        } else {
            "leave it out"
        };
        let message = format!(
            "`---` is in the frontmatter, and the reference validator ends it there: {advice}"
        );
        add("frontmatter-dashes", line_at(at), &message);
    }
    let rest = text.split_once(yaml).map(|(_, rest)| rest.trim_start());
    if rest.is_some_and(|rest| rest.starts_with("...")) {
        let message = "the frontmatter is closed by `...`, which only the reference validator \
                       refuses: write `---`";
        add("frontmatter-dots", line_at(yaml.len()), message);
    }
    if yaml.trim_start().starts_with('{') {
        let message = "the frontmatter is in braces, which only the reference validator refuses: \
                       put each key on its own line";
        add("yaml-braces", Split::YAML_LINE, message);
    }
    let is_yaml = |problem: &Problem| problem.kind != ProblemKind::NotYaml;
    if reading.problems.iter().all(is_yaml)
        && let Some(line) = tab_line(yaml)
    {
        let message = "a tab is before the text of a line or after a key, which only the \
                       reference validator refuses: write a blank";
        add("yaml-tab", line, message);
    }
    let mut lines = yaml.lines().zip(Split::YAML_LINE..);
    if let Some((_, line)) = lines.find(|(line, _)| key_of(line) == Some("<<")) {
        let message = "only the reference validator merges the map after `<<`, and refuses any \
                       other value there: leave `<<` out";
        add("yaml-merge", line, message);
    }
    for problem in &reading.problems {
        let at = problem.line.saturating_sub(Split::YAML_LINE) as usize;
        if problem.kind == ProblemKind::NotYaml && yaml.lines().nth(at).is_some_and(has_surrogate) {
            let message = "an escape stands for half of a surrogate pair (U+D800 to U+DFFF), which \
                           only the reference validator accepts: write the character";
            add("yaml-escape", problem.line, message);
        }
    }
}

/// Adds findings for values that are too long only for the reference validator.
fn length_findings(
    yaml: &str,
    frontmatter: &Frontmatter,
    add: &mut impl FnMut(&'static str, u32, &str),
) {
    for (key, field, max, rule) in [
        (
            "description",
            &frontmatter.description,
            MAX_DESCRIPTION_CHARS,
            "description-length",
        ),
        (
            "compatibility",
            &frontmatter.compatibility,
            MAX_COMPATIBILITY_CHARS,
            "compatibility-length",
        ),
    ] {
        let Some(field) = field else { continue };
        let at = (field.line - Split::YAML_LINE) as usize;
        let line = yaml.lines().nth(at).unwrap_or_default();
        let length = field.value.chars().count();
        if length <= max && length + blanks_in_quotes(line) > max {
            let message = format!(
                "`{key}` has more than {max} characters with the blanks in its quotes, which \
                 only the reference validator counts: leave them out"
            );
            add(rule, field.line, &message);
        }
        if length == max && line.trim_end().ends_with(['|', '>']) {
            let message = format!(
                "`{key}` has {max} characters and a line end, which only the reference validator \
                 counts: write `>-` or `|-` after the colon"
            );
            add(rule, field.line, &message);
        }
    }
}

/// Returns the key of a line.
fn key_of(line: &str) -> Option<&str> {
    Some(line.split_once(':')?.0.trim())
}

/// Returns the first line with a tab before its text or after a known key. Block text and
/// quoted text may contain tabs.
fn tab_line(yaml: &str) -> Option<u32> {
    // The indentation of the key of an open block of text, and an open quote.
    let (mut block, mut quote) = (None, None);
    for (line, number) in yaml.lines().zip(Split::YAML_LINE..) {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if block.is_some_and(|key| text.is_empty() || indent > key) {
            continue;
        }
        block = None;
        if let Some(open) = quote {
            quote = quote.filter(|_| !text.ends_with(open));
            continue;
        }
        if has_tab_after_key(line) || line[..indent].contains('\t') {
            return Some(number);
        }
        let value = text.split_once(':').map_or("", |(_, value)| value.trim());
        let start = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        quote = start.filter(|start| value.len() == 1 || !value.ends_with(*start));
        let indicator = value.trim_end_matches(['-', '+']);
        block = indicator.ends_with(['|', '>']).then_some(indent);
    }
    None
}

/// Returns whether a line has a tab after a known key, and no quotes around its value.
fn has_tab_after_key(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, value)| {
        KEYS.contains(&key) && value.contains('\t') && !value.trim_start().starts_with(['"', '\''])
    })
}

/// Returns the number of blanks inside the quotes of a value, before and after its text.
fn blanks_in_quotes(line: &str) -> usize {
    let value = line.split_once(':').map_or("", |(_, value)| value.trim());
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let text = value.strip_prefix(*quote)?;
        text.strip_suffix(*quote)
    });
    quoted.map_or(0, |text| text.chars().count() - text.trim().chars().count())
}

/// Returns whether a line escapes a surrogate: `\ud83d`, `\U0000d83d`.
fn has_surrogate(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let mut escapes = line.split("\\u").skip(1);
    escapes.any(|escape| {
        let digits = escape.strip_prefix("0000").unwrap_or(escape).as_bytes();
        matches!(digits, [b'd', b'8'..=b'9' | b'a'..=b'f', ..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontmatter;

    #[test]
    fn reports_text_that_the_validator_parses_differently() {
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
            (
                "---\nname: a\n--- # A\n",
                &[("frontmatter-dashes", Some(3))],
            ),
            (
                "\u{feff}---\nname: a\n ---\n",
                &[
                    ("byte-order-mark", Some(1)),
                    ("frontmatter-dashes", Some(3)),
                ],
            ),
            ("---\nname: a\n", &[]),
            ("---\rname: a\r---\r", &[("line-ends", Some(1))]),
            ("---\r\nname: a\r\n---\r\n", &[]),
            ("---\n{name: a}\n---\n", &[("yaml-braces", Some(2))]),
            (
                "---\nname: a\ndescription:\ta\tb\nlicense: a\t\n---\n",
                &[("yaml-tab", Some(3))],
            ),
            ("---\ndescription: \"a\tb\"\n---\na:\tb\n", &[]),
            ("---\nname: a\n \t\n\t# b\n---\n", &[("yaml-tab", Some(3))]),
            ("---\nname: a\n\t# b\n---\n", &[("yaml-tab", Some(3))]),
            ("---\nmetadata:\n \ta: b\n---\n", &[("yaml-tab", Some(3))]),
            ("---\nname: \"a\n \tb\"\n---\n", &[]),
            ("---\nmetadata:\n\ta: b\n---\n", &[]),
            ("---\ndescription: >-\n  a\n  \t\n  b\n---\n", &[]),
            ("---\nname: a\n<<: b\n---\n", &[("yaml-merge", Some(3))]),
            (
                "---\nmetadata:\n  a: b\n  << : c\n---\n",
                &[("yaml-merge", Some(4))],
            ),
            ("---\nmetadata:\n  \"<<\": c\n---\n", &[]),
            (
                "---\nlicense: \"a \\ud800\"\n---\n",
                &[("yaml-escape", Some(2))],
            ),
            (
                "---\nlicense: \"a \\U0000DFFF\"\n---\n",
                &[("yaml-escape", Some(2))],
            ),
            ("---\nlicense: \"a \\ud83d\\ude00\"\n---\n", &[]),
            ("---\nlicense: a \\ud800\n---\n", &[]),
            (
                &format!("---\ndescription: \"{}  \"\n---\n", "x".repeat(1023)),
                &[("description-length", Some(2))],
            ),
            (
                &format!("---\ncompatibility: ' {}'\n---\n", "x".repeat(500)),
                &[("compatibility-length", Some(2))],
            ),
            (
                &format!("---\ndescription: \"{} \"\n---\n", "x".repeat(1023)),
                &[],
            ),
            (
                &format!("---\ndescription: >\n  {}\n---\n", "x".repeat(1024)),
                &[("description-length", Some(2))],
            ),
            (
                &format!("---\na: b\ncompatibility: |\n  {}\n---\n", "x".repeat(500)),
                &[("compatibility-length", Some(3))],
            ),
            (
                &format!("---\ndescription: >-\n  {}\n---\n", "x".repeat(1024)),
                &[],
            ),
            (
                &format!("---\ndescription: >\n  {}\n---\n", "x".repeat(1023)),
                &[],
            ),
        ] {
            let found = findings(text, &frontmatter::read(text));
            let found: Vec<_> = found.iter().map(|found| (found.rule, found.line)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
