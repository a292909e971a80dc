//! The specification's rules for a skill's name.
//!
//! The host does not enforce these rules: it finds a skill by its folder's name.

use super::disputes::BY_SPECIFICATION;
use super::{Finding, Rule};
use crate::frontmatter::{Field, quoted};

/// The maximum number of characters in a name, from the specification.
const MAX_NAME_CHARS: usize = 64;

/// The rules for a name.
pub(super) const RULES: &[Rule] = &[
    Rule::error(
        "name-required",
        "`name` is missing or empty.",
        "Write the name of the skill's folder.",
    ),
    Rule::error(
        "name-length",
        "`name` is too long.",
        "Write at most 64 characters.",
    ),
    Rule::error(
        "name-characters",
        "`name` has a character that is not allowed.",
        "Use only lowercase letters, digits and hyphens.",
    ),
    Rule::warning(
        "name-ascii",
        "`name` has letters other than `a` to `z`.",
        "Use `a` to `z`. Not every host accepts other letters.",
    ),
    Rule::error(
        "name-hyphens",
        "`name` has a hyphen at its start or end, or two in a row.",
        "Write a hyphen only between two letters or digits.",
    ),
    Rule::error(
        "name-folder",
        "`name` differs from the name of the skill's folder.",
        "Rename one of them. Some programs find a skill by its name, others by its folder.",
    ),
];

/// Adds a finding for each violated rule, so that one edit can fix them all.
pub(super) fn findings(folder_name: &str, field: Option<&Field<String>>, into: &mut Vec<Finding>) {
    let Some(field) = field.filter(|field| !field.value.is_empty()) else {
        into.push(required(folder_name, field));
        return;
    };
    let (name, line) = (field.value.as_str(), Some(field.line));
    let shown = quoted(name);

    let chars = name.chars().count();
    if chars > MAX_NAME_CHARS {
        let message =
            format!("`name` has {chars} characters: at most {MAX_NAME_CHARS} are allowed");
        into.push(Finding::error("name-length", line, message));
    }
    if name.contains(is_accent) {
        let message = format!(
            "`name` is {shown}: write a letter and its accent as one character {BY_SPECIFICATION}"
        );
        into.push(Finding::error("name-characters", line, message));
    } else if let Some(char) = name.chars().find(|&char| !is_allowed(char)) {
        let quoted_char = quoted(&char.to_string());
        let message = format!(
            "`name` is {shown}: only lowercase letters, digits and hyphens are allowed, not \
             {quoted_char}"
        );
        into.push(Finding::error("name-characters", line, message));
    } else if let Some(char) = name.chars().find(|char| !char.is_ascii()) {
        let quoted_char = quoted(&char.to_string());
        let message = format!(
            "`name` is {shown}: not every host accepts letters other than `a` to `z`, such \
             as {quoted_char} (the specification says `a-z`; its reference validator accepts the \
             letters of every language)"
        );
        into.push(Finding::warning("name-ascii", line, message));
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        let message =
            format!("`name` is {shown}: a hyphen is allowed only between two letters or digits");
        into.push(Finding::error("name-hyphens", line, message));
    }
    if name != folder_name {
        let folder = quoted(folder_name);
        let accents = if name.contains(is_accent) != folder_name.contains(is_accent) {
            " (one has a letter and its accent as two characters; the reference validator \
                 treats the two names as the same)"
        } else {
            ""
        };
        let message = format!(
            "`name` is {shown}, but the folder is {folder}: they must be the same{accents}; tools \
             find the skill as {folder}"
        );
        into.push(Finding::error("name-folder", line, message));
    }
}

fn required(folder_name: &str, field: Option<&Field<String>>) -> Finding {
    let (what, line) = match field {
        Some(field) => ("empty", Some(field.line)),
        None => ("missing", None),
    };
    let folder = quoted(folder_name);
    let message = format!("`name` is {what}: {folder}, the folder's name, is expected");
    Finding::error("name-required", line, message)
}

/// Returns whether a character is an accent of the letter before it.
fn is_accent(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}')
}

/// Returns whether a character is allowed in a name: a hyphen, a digit, or a letter that is
/// its own lowercase form. The specification mentions both Unicode lowercase letters and
/// `a-z`; its validator accepts the former.
fn is_allowed(char: char) -> bool {
    char == '-' || char.is_alphanumeric() && char.to_lowercase().eq([char])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_a_name_by_each_rule() {
        let long = "a".repeat(65);
        let cases = [
            ("plain", "pdf-2-text", "pdf-2-text", &[][..]),
            ("one letter", "a", "a", &[]),
            ("64 characters", &long[1..], &long[1..], &[]),
            ("65 characters", &long, &long, &["name-length"]),
            ("underscore", "test_data", "test_data", &["name-characters"]),
            ("uppercase", "PDF", "PDF", &["name-characters"]),
            ("blank", "a b", "a b", &["name-characters"]),
            (
                "control character",
                "a\u{1b}b",
                "a\u{1b}b",
                &["name-characters"],
            ),
            ("path", "../a", "a", &["name-characters", "name-folder"]),
            (
                "uppercase, not ascii",
                "École",
                "École",
                &["name-characters"],
            ),
            ("not ascii", "école", "école", &["name-ascii"]),
            ("no case", "数据", "数据", &["name-ascii"]),
            (
                "accent as a separate character",
                "e\u{301}cole",
                "\u{e9}cole",
                &["name-characters", "name-folder"],
            ),
            ("leading hyphen", "-a", "-a", &["name-hyphens"]),
            ("trailing hyphen", "a-", "a-", &["name-hyphens"]),
            ("double hyphen", "a--b", "a--b", &["name-hyphens"]),
            ("other folder", "a", "b", &["name-folder"]),
            (
                "everything",
                "-A_",
                "b",
                &["name-characters", "name-hyphens", "name-folder"],
            ),
        ];
        for (case, name, folder, want) in cases {
            let mut findings_ = Vec::new();
            let field = Field {
                value: name.to_owned(),
                line: 2,
            };
            findings(folder, Some(&field), &mut findings_);
            let rules: Vec<_> = findings_.iter().map(|finding| finding.rule).collect();
            assert_eq!(rules, want, "{case}");
        }
    }

    #[test]
    fn message_names_the_wrong_character() {
        let mut findings_ = Vec::new();
        let field = Field {
            value: "test_data_factory".to_owned(),
            line: 2,
        };
        findings("test_data_factory", Some(&field), &mut findings_);
        let messages: Vec<_> = findings_.iter().map(|finding| &*finding.message).collect();
        assert_eq!(
            messages,
            [
                "`name` is `test_data_factory`: only lowercase letters, digits and hyphens are allowed, not `_`"
            ]
        );
    }
}
