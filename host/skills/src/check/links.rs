//! Finds references to files in a skill's body: relative Markdown links, images, and link
//! definitions.
//!
//! `check/folder.rs` checks that the files exist.

use std::borrow::Cow;

use pulldown_cmark::{Event, LinkType, Tag};

use super::markdown::{LineCounter, Markdown};
use super::{Finding, Rule};
use crate::frontmatter::{Split, quoted};

/// The maximum number of references of a body. Guards against: thousands of links, each
/// with a look-up and a finding.
pub(super) const MAX_REFERENCES: usize = 1000;

/// The rule for references that can be checked without the file system.
pub(super) const RULES: &[Rule] = &[Rule::warning(
    "reference-outside",
    "The body refers to a file outside the skill's folder.",
    "Put the file into the folder. Tools read nothing outside it, and the skill may be installed \
     alone.",
)];

/// A reference to a file of the skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The line of SKILL.md, from 1.
    pub line: u32,
    /// The path relative to the skill's folder, without a leading `./` or an anchor, and with
    /// escapes such as `%20` decoded. No `..` leads out of the folder, but a symlink can.
    pub path: Cow<'a, str>,
}

/// Finds the references of a body. `body_line` is the line of the file on which the body
/// starts: [`Split::body_line`].
///
/// Omits URLs, anchors, absolute paths, code, and paths that lead out of the folder, which
/// [`super::check`] reports.
pub fn references(body: &str, body_line: u32) -> impl Iterator<Item = Reference<'_>> {
    relative_links(body, body_line).filter(|reference| !leads_out(&reference.path))
}

/// Returns the findings for references that lead out of the skill's folder.
pub(super) fn findings(split: &Split<'_>) -> impl Iterator<Item = Finding> {
    relative_links(split.body, split.body_line)
        .filter(|reference| leads_out(&reference.path))
        .map(|Reference { line, path }| {
            let shown = quoted(&path);
            let message =
                format!("the body refers to {shown}, which is outside the skill's folder");
            Finding::warning("reference-outside", Some(line), message)
        })
}

/// Returns whether a path leads out of its folder at any step.
fn leads_out(path: &str) -> bool {
    let mut depth: usize = 0;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

/// Finds the relative links of a text, including those that lead out of its folder.
pub(super) fn relative_links(body: &str, body_line: u32) -> impl Iterator<Item = Reference<'_>> {
    let markdown = Markdown::read(body);
    let parser = markdown.parser();
    let definitions = parser.reference_definitions().iter();
    let mut destinations: Vec<(usize, String)> = definitions
        .map(|(_, definition)| (definition.span.start, definition.dest.to_string()))
        .collect();
    let events = parser.into_offset_iter();
    destinations.extend(events.filter_map(|(event, range)| match event {
        Event::Start(
            Tag::Link {
                link_type: LinkType::Inline,
                dest_url,
                ..
            }
            | Tag::Image {
                link_type: LinkType::Inline,
                dest_url,
                ..
            },
        ) => Some((range.start, dest_url.into_string())),
        _ => None,
    }));
    destinations.sort_by_key(|(at, _)| *at);
    let mut lines = LineCounter::new(body, body_line);
    let found = destinations
        .into_iter()
        .filter_map(move |(at, destination)| {
            let path = relative_path(&destination)?.into_owned();
            Some(Reference {
                line: lines.line_of(at),
                path: path.into(),
            })
        });
    found.take(MAX_REFERENCES)
}

/// Returns a destination as a relative path. Returns `None` for URLs, anchors, absolute paths,
/// templates, and paths with a backslash or control character.
///
/// Decodes escapes first, because they can hide a scheme or a leading slash.
fn relative_path(destination: &str) -> Option<Cow<'_, str>> {
    let path = destination.split(['#', '?']).next().unwrap_or("");
    let mut path = path.trim();
    while let Some(rest) = path.strip_prefix("./") {
        path = rest.trim_start_matches('/');
    }
    let path = decoded(path);
    let is_file = !path.is_empty() && path != ".";
    let is_absolute = path.starts_with(['/', '~']) || has_scheme(&path);
    // The value of a template is unknown, and programs disagree about backslashes.
    let is_odd = |char: char| char.is_control() || "{}$*<>\\".contains(char);
    (is_file && !is_absolute && !path.contains(is_odd)).then_some(path)
}

/// Returns whether a destination starts like a URL, or like a Windows path with a drive.
fn has_scheme(path: &str) -> bool {
    path.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
    })
}

/// Decodes the percent escapes of a path. Returns the path unchanged if the result is not
/// UTF-8.
fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| hex_byte(after)).flatten();
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() {
            &after[2..]
        } else {
            after
        };
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(path), Cow::Owned)
}

/// Returns the byte that the first two hexadecimal digits stand for.
fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_relative_links() {
        let deep = format!("{}[x](a.md)", "> ".repeat(1_000));
        let cases = [
            ("link", "see [x](docs/a.md).", &["docs/a.md"][..]),
            ("two links", "[x](a.md) and [y](b.md)", &["a.md", "b.md"]),
            ("link with a title", "[x](a.md \"title\")", &["a.md"]),
            ("anchor behind the path", "[x](a.md#top)", &["a.md"]),
            (
                "leading dot",
                "[x](./a.md) [y](././/b.md)",
                &["a.md", "b.md"],
            ),
            ("image", "![x](img/a.png)", &["img/a.png"]),
            ("image in a link", "[![x](a.png)](b.md)", &["b.md", "a.png"]),
            ("angle brackets", "[x](<a b.md>)", &["a b.md"]),
            (
                "names of tags",
                "[x](<source/a b.md>) [y](<search/c d.md>) [z](<textarea/e>) [u](<dIr.md>)",
                &["source/a b.md", "search/c d.md", "textarea/e", "dIr.md"],
            ),
            ("escaped blank", "[x](a%20b.md)", &["a b.md"]),
            (
                "escapes that are not UTF-8",
                "[x](a%ff%zz%2)",
                &["a%ff%zz%2"],
            ),
            ("escaped non-ascii", "[x](%C3%A9.md)", &["é.md"]),
            ("parentheses", "[x](a_(b).md)", &["a_(b).md"]),
            ("folder", "[x](references/)", &["references/"]),
            ("definition", "[x]: docs/a.md \"title\"", &["docs/a.md"]),
            (
                "definition in angle brackets",
                "  [x]: <a b.md>",
                &["a b.md"],
            ),
            ("up and back", "[x](docs/../a.md)", &["docs/../a.md"]),
            ("url", "[x](https://a.b/c.md) [y](mailto:a@b)", &[]),
            ("scheme in an image", "![x](data:image/png;base64,AA)", &[]),
            ("anchor", "[x](#top)", &[]),
            (
                "absolute",
                "[x](/etc/passwd) [y](\\\\a) [z](C:\\a) [~](~/a)",
                &[],
            ),
            ("outside", "[x](../a.md) [y](a/../../b) [z](..)", &[]),
            (
                "escaped way out",
                "[x](%2e%2e/a.md) [y](%2Fetc/passwd) [z](a%00)",
                &[],
            ),
            ("template", "[x]({baseDir}/a.md) [y](<$DIR/a>)", &[]),
            ("empty", "[x]() [y](<>) [z](.)", &[]),
            (
                "inline code",
                "`[x](a.md)` and ``[y](`b.md)`` [z](c.md)",
                &["c.md"],
            ),
            ("lone backtick", "a ` b [x](c.md)", &["c.md"]),
            ("escaped bracket", "[x\\](a.md)", &[]),
            ("footnote", "[^1]: see a.md", &[]),
            ("not closed", "[x](a.md", &[]),
            ("not a link", "[x] (a.md) x](", &[]),
            ("code block", "```md\n[x](a.md)\n```\n[y](b.md)", &["b.md"]),
            (
                "longer fence",
                "````\n```\n[x](a.md)\n````\n[y](b.md)",
                &["b.md"],
            ),
            ("tildes", "~~~\n```\n[x](a.md)\n~~~\n[y](b.md)", &["b.md"]),
            ("block that is not closed", "```\n[x](a.md)", &[]),
            ("fence on one line", "``` x ``` [y](b.md)", &["b.md"]),
            ("crlf", "[x](a.md)\r\n\r\n[y]: b.md\r\n", &["a.md", "b.md"]),
            ("reference", "[x][y] [y]\n\n[y]: b.md", &["b.md"]),
            ("definition in a paragraph", "a\n[y]: b.md", &[]),
            ("too deep to parse", &*deep, &[]),
            (
                "indented code",
                "    [x](a.md)\n\n- a\n\n    [y](b.md)",
                &["b.md"],
            ),
        ];
        for (name, body, want) in cases {
            let got: Vec<_> = references(body, 1)
                .map(|reference| reference.path)
                .collect();
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn counts_lines_from_the_start_of_the_file() {
        let body = "a\n[x](a.md)\n\n[y](b.md) [z](c.md)\n";
        let lines: Vec<_> = references(body, 10)
            .map(|reference| reference.line)
            .collect();
        assert_eq!(lines, [11, 13, 13]);
    }

    #[test]
    fn finds_paths_that_lead_out() {
        for (path, want) in [
            ("a", false),
            ("a/", false),
            ("a//b", false),
            ("a/../b", false),
            ("a/..", false),
            ("a/b/../../c", false),
            ("..", true),
            ("../", true),
            ("../a", true),
            ("a/../../b/c", true),
        ] {
            assert_eq!(leads_out(path), want, "{path}");
        }
    }

    #[test]
    fn ignores_references_beyond_the_limit() {
        let body = "[x](a.md)\n".repeat(MAX_REFERENCES + 1);
        assert_eq!(references(&body, 1).count(), MAX_REFERENCES);
    }
}
