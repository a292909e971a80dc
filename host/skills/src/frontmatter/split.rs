//! Splits a SKILL.md into frontmatter and body.
//!
//! Handles the two fence lines, the byte order mark, blank lines after the closing fence,
//! and line numbers. It does not allocate, and reads only the leading blank lines of the body,
//! so a long body costs nothing.

/// The parts of a SKILL.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// The text between the fence lines, with its last line end. `None` if there is no
    /// frontmatter or no closing fence.
    pub yaml: Option<&'a str>,
    /// The text after the frontmatter, without leading blank lines. Without frontmatter,
    /// the whole text without a byte order mark.
    pub body: &'a str,
    /// The line of the file on which `body` starts, from 1.
    pub body_line: u32,
    /// True if the frontmatter has no closing fence.
    pub unclosed: bool,
}

impl Split<'_> {
    /// The line of the file on which `yaml` starts. The fence is line 1.
    pub const YAML_LINE: u32 = 2;
}

/// The line that opens frontmatter, and can close it.
const FENCE: &str = "---";
/// The end of a YAML document, which also closes frontmatter.
const DOCUMENT_END: &str = "...";

/// Splits the text of a SKILL.md into frontmatter and body.
///
/// Frontmatter starts with a first line `---`, and ends at the next line `---` or `...`.
/// Spaces and tabs may follow both. Lines end in LF or CRLF. A byte order mark is dropped.
pub fn split(text: &str) -> Split<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.split_inclusive('\n').next().unwrap_or("");
    if bare(first) != FENCE {
        return body_only(text, false);
    }

    let rest = &text[first.len()..];
    let mut at = 0;
    let mut line_number = Split::YAML_LINE;
    for line in rest.split_inclusive('\n') {
        let after = at + line.len();
        if matches!(bare(line), FENCE | DOCUMENT_END) {
            let line_after_fence = line_number + u32::from(line.ends_with('\n'));
            let (body, blank) = skip_blank_lines(&rest[after..]);
            return Split {
                yaml: Some(&rest[..at]),
                body,
                body_line: line_after_fence.saturating_add(blank),
                unclosed: false,
            };
        }
        at = after;
        line_number = line_number.saturating_add(1);
    }
    body_only(text, true)
}

/// Returns the parts of a text without frontmatter.
fn body_only(text: &str, unclosed: bool) -> Split<'_> {
    Split {
        yaml: None,
        body: text,
        body_line: 1,
        unclosed,
    }
}

/// Returns a line without its end and trailing blanks.
fn bare(line: &str) -> &str {
    line.trim_end_matches([' ', '\t', '\r', '\n'])
}

/// Drops leading blank lines, and returns their number.
fn skip_blank_lines(body: &str) -> (&str, u32) {
    let mut rest = body;
    let mut dropped: u32 = 0;
    for line in body.split_inclusive('\n') {
        if !bare(line).is_empty() {
            break;
        }
        rest = &rest[line.len()..];
        dropped = dropped.saturating_add(u32::from(line.ends_with('\n')));
    }
    (rest, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_the_fence_lines() {
        // name, text, yaml, body, line of the body
        let cases = [
            (
                "plain",
                "---\na: b\n---\nbody\n",
                Some("a: b\n"),
                "body\n",
                4,
            ),
            (
                "crlf",
                "---\r\na: b\r\n---\r\nx\r\ny\r\n",
                Some("a: b\r\n"),
                "x\r\ny\r\n",
                4,
            ),
            (
                "byte order mark",
                "\u{feff}---\na: b\n---\nbody",
                Some("a: b\n"),
                "body",
                4,
            ),
            (
                "blanks after the fences",
                "--- \t\na: b\n---\t \nbody",
                Some("a: b\n"),
                "body",
                4,
            ),
            (
                "closed by dots",
                "---\na: b\n...\nbody",
                Some("a: b\n"),
                "body",
                4,
            ),
            ("empty frontmatter", "---\n---\nbody", Some(""), "body", 3),
            (
                "blank lines before the body",
                "---\na: b\n---\n\n \t\r\n\n  x\n\ny",
                Some("a: b\n"),
                "  x\n\ny",
                7,
            ),
            ("no body", "---\na: b\n---\n", Some("a: b\n"), "", 4),
            (
                "closing fence ends the file",
                "---\na: b\n---",
                Some("a: b\n"),
                "",
                3,
            ),
            (
                "only blanks after",
                "---\na: b\n---\n\n  ",
                Some("a: b\n"),
                "",
                5,
            ),
            (
                "rule in the body",
                "---\na: b\n---\nx\n---\ny",
                Some("a: b\n"),
                "x\n---\ny",
                4,
            ),
            (
                "dashes inside a value",
                "---\na: x --- y\n----\n ---\n---\nb",
                Some("a: x --- y\n----\n ---\n"),
                "b",
                6,
            ),
            (
                "no frontmatter",
                "# Title\n---\na: b\n---\n",
                None,
                "# Title\n---\na: b\n---\n",
                1,
            ),
            (
                "no frontmatter, leading blank line",
                "\n---\na: b\n---\n",
                None,
                "\n---\na: b\n---\n",
                1,
            ),
            (
                "no frontmatter, byte order mark",
                "\u{feff}text",
                None,
                "text",
                1,
            ),
            (
                "fence with text after it",
                "---yaml\na: b\n---\n",
                None,
                "---yaml\na: b\n---\n",
                1,
            ),
            (
                "indented fence",
                " ---\na: b\n---\n",
                None,
                " ---\na: b\n---\n",
                1,
            ),
            (
                "dots do not open",
                "...\na: b\n---\n",
                None,
                "...\na: b\n---\n",
                1,
            ),
            ("empty text", "", None, "", 1),
        ];
        for (name, text, yaml, body, body_line) in cases {
            let want = Split {
                yaml,
                body,
                body_line,
                unclosed: false,
            };
            assert_eq!(split(text), want, "{name}");
        }
    }

    #[test]
    fn unclosed_frontmatter_is_body() {
        for text in ["---", "---\n", "---\na: b\n", "---\r\na: b\r\n --- \r\n"] {
            let want = Split {
                yaml: None,
                body: text,
                body_line: 1,
                unclosed: true,
            };
            assert_eq!(split(text), want, "{text:?}");
        }
    }
}
