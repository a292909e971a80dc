//! Finds text before the frontmatter, which must start on the first line. The finding names that
//! text, because most of it is invisible.

use super::Finding;
use crate::frontmatter::quoted;
use crate::text::line::is_hidden;

/// The maximum number of lines to search for the first `---`, and then for a key.
const MAX_LINES: usize = 50;

/// The keys that show that text between `---` is frontmatter.
const KEYS: [&str; 2] = ["name:", "description:"];

/// Returns the finding for a text without frontmatter. The caller has removed one byte order mark,
/// but there can be a second one.
pub(super) fn finding(text: &str) -> Finding {
    let rule = "frontmatter-required";
    match text_before(text) {
        Some((what, line)) => {
            let message = format!(
                "there is no frontmatter, which must start on the first line: {what} before its \
                 first `---`; start the file with this `---`"
            );
            Finding::error(rule, Some(line), message)
        }
        None if has_bare_cr(text) => {
            let message = "there is no frontmatter: the lines end in CR alone, so the file is one \
                           line; write LF or CRLF";
            Finding::error(rule, Some(1), message.to_owned())
        }
        None => {
            let message = "there is no frontmatter: the first line must be `---`, \
                           with `name` and `description` below it";
            Finding::error(rule, Some(1), message.to_owned())
        }
    }
}

/// Returns whether the first line of a text is frontmatter whose lines end in CR.
fn has_bare_cr(text: &str) -> bool {
    let first = text.split('\n').next().unwrap_or_default();
    let first = first.trim_end_matches('\r').trim_start_matches('\u{feff}');
    first.starts_with("---\r")
}

/// Describes the text before the frontmatter, such as `a comment is`. Also returns the line of the
/// first `---`.
fn text_before(text: &str) -> Option<(String, u32)> {
    let lines: Vec<&str> = text.lines().take(2 * MAX_LINES).collect();
    let searched = lines.iter().take(MAX_LINES);
    let fence = searched.zip(0..).find_map(|(line, at)| {
        let is_fence = visible(line).trim() == "---" && opens_frontmatter(&lines[at + 1..]);
        is_fence.then_some(at)
    })?;
    let line = u32::try_from(fence + 1).ok()?;
    let mut above = lines[..fence]
        .iter()
        .map(|line| visible(line).trim().to_owned());
    let Some(first) = above.clone().find(|line| !line.is_empty()) else {
        return before_in_line(lines[fence])
            .or_else(|| hidden_in(&lines[..fence]))
            .or_else(|| blank_lines(fence))
            .map(|what| (what, line));
    };
    let what = if first.starts_with("<!--") {
        "a comment is".to_owned()
    } else {
        let at = above.position(|line| line == first).map_or(1, |at| at + 1);
        format!("{} on line {at} is", quoted(&first))
    };
    Some((what, line))
}

/// Returns whether these lines have a key of frontmatter before the next `---`, heading or code
/// block.
fn opens_frontmatter(lines: &[&str]) -> bool {
    let mut lines = lines.iter().take(MAX_LINES);
    let mut inside = lines
        .by_ref()
        .take_while(|line| line.trim_end() != "---" && !line.starts_with(['#', '`']));
    inside.any(|line| KEYS.iter().any(|key| line.starts_with(key)))
}

/// Describes the text before a `---` on its line, such as `blanks are`.
fn before_in_line(line: &str) -> Option<String> {
    hidden_in(&[line]).or_else(|| {
        let has_blanks = line.starts_with(char::is_whitespace);
        has_blanks.then(|| "blanks are".to_owned())
    })
}

/// Describes the first hidden character in these lines.
fn hidden_in(lines: &[&str]) -> Option<String> {
    let mut chars = lines.iter().flat_map(|line| line.chars());
    match chars.find(|c| is_invisible(*c))? {
        '\u{feff}' => Some("a second byte order mark is".to_owned()),
        c => Some(format!("the hidden character U+{:04X} is", u32::from(c))),
    }
}

fn blank_lines(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("a blank line is".to_owned()),
        count => Some(format!("{count} blank lines are")),
    }
}

/// Returns a line without its invisible characters.
fn visible(line: &str) -> String {
    line.chars().filter(|c| !is_invisible(*c)).collect()
}

fn is_invisible(c: char) -> bool {
    is_hidden(c) && !c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontmatter;

    const GOOD: &str = "---\nname: a\ndescription: b\n---\nBody.\n";

    #[test]
    fn names_what_is_before_the_frontmatter() {
        let cases = [
            ("\u{feff}\u{feff}", "a second byte order mark is", 1),
            ("\u{200b}", "the hidden character U+200B is", 1),
            ("\u{200b}\n", "the hidden character U+200B is", 2),
            ("\n", "a blank line is", 2),
            ("\r\n", "a blank line is", 2),
            ("\u{feff}\n \n", "2 blank lines are", 3),
            (" ", "blanks are", 1),
            ("<!-- by me -->\n", "a comment is", 2),
            ("\n<!--\nby me\n-->\n\n", "a comment is", 6),
            ("# Title\n", "`# Title` on line 1 is", 2),
            ("\nBy me\n\n", "`By me` on line 2 is", 4),
            ("\u{202e}x\n", "`x` on line 1 is", 2),
        ];
        for (before, what, line) in cases {
            let text = format!("{before}{GOOD}");
            let reading = frontmatter::read(&text);
            let found = finding(reading.split.body);
            let start = format!(
                "there is no frontmatter, which must start on the first line: {what} before"
            );
            assert!(found.message.starts_with(&start), "{}", found.message);
            assert_eq!(found.line, Some(line), "{before:?}");
        }
    }

    #[test]
    fn names_lines_that_end_in_cr_alone() {
        for text in [GOOD.replace('\n', "\r"), GOOD.replace('\n', "\r") + "\n"] {
            let found = finding(&text);
            assert!(found.message.contains("CR alone"), "{}", found.message);
        }
    }

    #[test]
    fn only_reports_missing_frontmatter_for_other_text() {
        let far = "x\n".repeat(MAX_LINES) + GOOD;
        let block = "# A\n---\n```yaml\ndescription: x\n```\n---\n";
        let heading = "# A\n---\n## B\nname: x\n---\n";
        let rule = "# A\n---\nText.\n---\n";
        for text in ["", "x", rule, block, heading, "a\n\nb: c\n---\n", &far] {
            let found = finding(text);
            let end = "the first line must be `---`, with `name` and `description` below it";
            assert!(found.message.ends_with(end), "{text:?}: {}", found.message);
        }
    }
}
