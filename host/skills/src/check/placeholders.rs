//! Finds text in a body that some hosts replace or run before a model reads it. skillhost does
//! neither: the model reads the text as it is.

use super::markdown::{LineCounter, inline_code};
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
/// Ignores `$1`, because shell code and amounts of money contain it too. Finds commands only in
/// inline code.
pub fn placeholders(body: &str, first_line: u32) -> Vec<Placeholder> {
    let firsts = [
        (PlaceholderKind::SkillDir, body.find("${CLAUDE_SKILL_DIR}")),
        (PlaceholderKind::Arguments, first_arguments(body)),
        (PlaceholderKind::Command, first_command(body)),
    ];
    let found = firsts.into_iter().filter_map(|(kind, at)| {
        let line = LineCounter::new(body, first_line).line_of(at?);
        Some(Placeholder { kind, line })
    });
    let mut found: Vec<Placeholder> = found.collect();
    found.sort_by_key(|placeholder| (placeholder.line, placeholder.kind));
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

/// Returns the first `$ARGUMENTS` that is not the start of a longer name.
fn first_arguments(body: &str) -> Option<usize> {
    let is_longer = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let mut found = body.match_indices("$ARGUMENTS");
    let first = found.find(|(at, name)| !is_longer(&body[at + name.len()..]));
    first.map(|(at, _)| at)
}

/// Returns the first `` !`command` `` at the start of a word, outside of code.
fn first_command(body: &str) -> Option<usize> {
    // Most bodies have none, and need not be parsed.
    if !body.contains("!`") {
        return None;
    }
    let mut code = inline_code(body);
    let first = code.find(|code| {
        let before = body[..code.start].strip_suffix('!');
        let starts_word = |before: &str| before.chars().next_back().is_none_or(char::is_whitespace);
        before.is_some_and(starts_word) && !body[code.clone()].trim_matches('`').trim().is_empty()
    });
    first.map(|code| code.start)
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
