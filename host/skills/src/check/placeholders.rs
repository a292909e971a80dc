//! Finds text in a body that some hosts replace or run before a model reads it. skillhost does
//! neither: the model reads the text as it is.

use super::markdown::{LineCounter, after_mark};
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
/// Ignores `$1`, because shell code and amounts of money contain it too. Finds no commands in
/// fenced code. Takes linear time, because a server calls it while clients wait.
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

/// Returns the first `` !`command` `` at the start of a word, outside of fenced code.
///
/// Does not parse Markdown, so it also finds commands in indented code and in comments. It finds
/// none in the rest of a line after backticks that the line does not close, and none after a fence
/// that only the end of a list item closes.
fn first_command(body: &str) -> Option<usize> {
    let mut open: Option<Fence<'_>> = None;
    let mut start = 0;
    for line in body.split_inclusive('\n') {
        match &open {
            Some(fence) if fence.is_closed_by(line) => open = None,
            Some(_) => {}
            None => {
                open = Fence::open(line);
                if open.is_none()
                    && let Some(at) = command_in_line(line)
                {
                    return Some(start + at);
                }
            }
        }
        start += line.len();
    }
    None
}

/// The marks around fenced code: at least three backticks or tildes.
struct Fence<'a> {
    mark: &'a str,
    /// The number of bytes before it on its line.
    column: usize,
    /// The text after it.
    info: &'a str,
}

impl<'a> Fence<'a> {
    /// Returns the fence that a line opens, after the marks of lists and quotes.
    fn open(line: &'a str) -> Option<Self> {
        let mut rest = line;
        while let Some(after) = after_mark(rest.trim_start()) {
            rest = after;
        }
        let fence = Self::after(line, rest.trim_start())?;
        (fence.mark.starts_with('~') || !fence.info.contains('`')).then_some(fence)
    }

    /// Returns whether a line closes this fence.
    fn is_closed_by(&self, line: &'a str) -> bool {
        let rest = line.trim_start_matches(|c: char| c.is_whitespace() || c == '>');
        Self::after(line, rest).is_some_and(|close| {
            let is_code = close.column > self.column + 3;
            close.mark.starts_with(self.mark) && close.info.is_empty() && !is_code
        })
    }

    /// Returns the fence at the start of `rest`, which is the last part of `line`.
    fn after(line: &str, rest: &'a str) -> Option<Self> {
        let info = rest.trim_start_matches(if rest.starts_with('~') { '~' } else { '`' });
        let mark = &rest[..rest.len() - info.len()];
        (mark.len() >= 3).then(|| Self {
            mark,
            column: line.len() - rest.len(),
            info: info.trim(),
        })
    }
}

/// Returns the first `` !`command` `` in a line: inline code that is not blank, after a `!` at the
/// start of a word.
fn command_in_line(line: &str) -> Option<usize> {
    // The start of the inline code, and the number of backticks before it.
    let mut open: Option<(usize, usize)> = None;
    let mut at = 0;
    while let Some(found) = line[at..].find('`') {
        let start = at + found;
        let after = line[start..].trim_start_matches('`');
        at = line.len() - after.len();
        let backticks = at - start;
        match open {
            None => open = Some((at, backticks)),
            Some((code, opened)) if opened == backticks => {
                let before = line[..code - opened].strip_suffix('!');
                let starts_word = |before: &str| !before.ends_with(|c: char| !c.is_whitespace());
                if before.is_some_and(starts_word) && !line[code..start].trim().is_empty() {
                    return Some(code);
                }
                open = None;
            }
            Some(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::PlaceholderKind::{Arguments, Command, SkillDir};
    use super::*;

    #[test]
    fn finds_what_other_hosts_replace_or_run() {
        let deep = format!("{}a\n!`a`", "- ".repeat(1_000));
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
            ("`` !`a` `` and !``b``", &[(Command, 5)]),
            ("`` !`a` `` and `` ! ``", &[]),
            ("1. ```sh\n   !`a`\n   ```\n> ~~~ `\n> !`b`\n", &[]),
            ("```a``` b\n!`c`", &[(Command, 6)]),
            (
                "````\n```\n!`a`\n```` b\n!`c`\n`````\n!`d`",
                &[(Command, 11)],
            ),
            ("    !`a`", &[(Command, 5)]),
            (
                "```md\n1. Step\n    ```sh\n    x\n    ```\n- ```\n```\n!`a`",
                &[(Command, 12)],
            ),
            ("2.0 ~~~\n!`a`", &[(Command, 6)]),
            (&*deep, &[(Command, 6)]),
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
