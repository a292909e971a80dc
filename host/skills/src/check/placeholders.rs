//! Finds text in a body that some hosts replace or run before a model reads it. skillhost does
//! neither: the model reads the text as it is.

use super::links::{MAX_LINE_BYTES, after_code, update_fence};
use super::{Finding, Rule};
use crate::frontmatter::Split;

/// The rule for placeholders.
pub(super) const RULES: &[Rule] = &[Rule::warning(
    "body-placeholder",
    "The body has text that other hosts replace or run, such as `$ARGUMENTS`.",
    "Write in words what it means. skillhost neither replaces nor runs it.",
)];

/// Text that some hosts replace or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PlaceholderKind {
    /// `${CLAUDE_SKILL_DIR}`, the path of the skill's folder.
    SkillDir,
    /// `$ARGUMENTS`, the text that a user types after the skill's name.
    Arguments,
    /// `` !`command` ``, the output of a command.
    Command,
}

/// A placeholder in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// The kind.
    pub kind: PlaceholderKind,
    /// The line of the first placeholder of this kind.
    pub line: u32,
}

impl PlaceholderKind {
    /// Returns the placeholder as an author writes it, in backticks.
    pub fn name(self) -> &'static str {
        match self {
            Self::SkillDir => "`${CLAUDE_SKILL_DIR}`",
            Self::Arguments => "`$ARGUMENTS`",
            Self::Command => "`` !`command` ``",
        }
    }

    /// Returns what the placeholder means, and that skillhost does not replace or run it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::SkillDir => {
                "is not replaced here: it means the skill's folder, so give tools the path after it"
            }
            Self::Arguments => {
                "is not replaced here: it means the words that the user gave with the skill's name"
            }
            Self::Command => {
                "is not run here: other hosts put the output of the command in its place"
            }
        }
    }
}

/// Returns the placeholders in a body, the first of each kind. `first_line` is the line of the
/// file on which the body starts.
///
/// `$1` does not count, because shell code and prices contain it too. A command counts only outside
/// of code blocks.
pub fn placeholders(body: &str, first_line: u32) -> Vec<Placeholder> {
    let mut found: Vec<Placeholder> = Vec::new();
    let mut fence = None;
    for (line, number) in body.lines().zip(first_line..) {
        let in_code = update_fence(&mut fence, line);
        let line = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
        for (kind, is_there) in [
            (
                PlaceholderKind::SkillDir,
                line.contains("${CLAUDE_SKILL_DIR}"),
            ),
            (PlaceholderKind::Arguments, has_arguments(line)),
            (PlaceholderKind::Command, !in_code && has_command(line)),
        ] {
            if is_there && found.iter().all(|found| found.kind != kind) {
                found.push(Placeholder { kind, line: number });
            }
        }
    }
    found
}

/// Returns the findings for the placeholders of a body.
pub(super) fn findings(split: &Split<'_>) -> impl Iterator<Item = Finding> {
    let found = placeholders(split.body, split.body_line);
    found.into_iter().map(|Placeholder { kind, line }| {
        let message = format!("{} {}", kind.name(), kind.meaning());
        Finding::warning("body-placeholder", Some(line), message)
    })
}

/// Returns whether a line has `$ARGUMENTS` that is not the start of a longer name.
fn has_arguments(line: &str) -> bool {
    let mut rest = line.split("$ARGUMENTS").skip(1);
    rest.any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

/// Returns whether a line has `` !`command` `` at the start of a word, outside of code.
fn has_command(line: &str) -> bool {
    let bytes = line.as_bytes();
    let mut at = 0;
    while let Some(code) = line[at..].find('`').map(|found| at + found) {
        let end = after_code(bytes, code);
        let is_command = line[..code].strip_suffix('!').is_some_and(|before| {
            let starts_word = before.chars().next_back().is_none_or(char::is_whitespace);
            starts_word && !line[code..end].trim_matches('`').trim().is_empty()
        });
        if is_command {
            return true;
        }
        at = end;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::PlaceholderKind::{Arguments, Command, SkillDir};
    use super::*;

    #[test]
    fn finds_what_other_hosts_replace_or_run() {
        for (body, expected) in [
            ("Run ${CLAUDE_SKILL_DIR}/x.py", &[(SkillDir, 5)][..]),
            (
                "```sh\npython \"${CLAUDE_SKILL_DIR}/x.py\"\n```",
                &[(SkillDir, 6)],
            ),
            ("Fix $ARGUMENTS.", &[(Arguments, 5)]),
            ("\n$ARGUMENTS[0] and $ARGUMENTS", &[(Arguments, 6)]),
            ("Status: !`git status`", &[(Command, 5)]),
            ("- !`git status`\n- !`git diff`", &[(Command, 5)]),
            (
                "!`a` $ARGUMENTS\n${CLAUDE_SKILL_DIR}",
                &[(Arguments, 5), (Command, 5), (SkillDir, 6)],
            ),
            ("```sh\n! `a`\n!`a`\n```\n", &[]),
            ("~~~\n```\n!`a`\n~~~\n !`b`", &[(Command, 9)]),
            ("Watch out!`a` and `!`a`", &[]),
            ("!` ` !`a", &[]),
            ("`a !` and `b` !`c`", &[(Command, 5)]),
            ("Ends in `!` or ` !` and `b`", &[]),
            ("$ARGUMENTS_FILE ${ARGUMENTS} ARGUMENTS", &[]),
            ("It costs $1. `awk '{ print $1 }'`", &[]),
            ("${CLAUDE_SKILL_DIRS} $CLAUDE_SKILL_DIR", &[]),
        ] {
            let found = placeholders(body, 5).into_iter();
            let found: Vec<_> = found.map(|found| (found.kind, found.line)).collect();
            assert_eq!(found, expected, "{body}");
        }
    }
}
