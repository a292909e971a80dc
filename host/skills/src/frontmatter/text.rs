//! The lenient parser's rules for a value: blocks, quotes and plain text that are invalid
//! YAML.
//!
//! The rules keep all words: they leave text unchanged where YAML would fail.
//! [`super::lenient`] finds the start and end of a value.

/// Returns the text of a value. `first` is the rest of the key's line, and `rest` are the
/// following lines.
pub(super) fn value(first: &str, rest: &str) -> String {
    match block_style(first) {
        Some(style) => block(style, rest),
        None => unquoted(&joined(first, rest)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockStyle {
    Literal,
    Folded,
}

/// Returns the style of a block header such as `|`, `>-` or `>2 # note`.
fn block_style(first: &str) -> Option<BlockStyle> {
    let style = match first.as_bytes().first()? {
        b'|' => BlockStyle::Literal,
        b'>' => BlockStyle::Folded,
        _ => return None,
    };
    let rest =
        first[1..].trim_start_matches(['+', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    let header = rest.is_empty() || rest.starts_with([' ', '\t']) && is_comment(rest.trim_start());
    header.then_some(style)
}

fn is_comment(text: &str) -> bool {
    text.is_empty() || text.starts_with('#')
}

/// Returns a block's text. The first line that is not blank defines the indentation, and
/// trailing line ends are dropped, regardless of the header.
fn block(style: BlockStyle, rest: &str) -> String {
    let indent = rest
        .lines()
        .find(|line| !line.trim().is_empty())
        .map_or(0, |line| line.len() - line.trim_start().len());
    let mut text = String::new();
    // The number of line ends before the next line.
    let mut line_ends = 0;
    // True if a space may join the last line to the next one.
    let mut joins = false;
    for line in rest.lines() {
        let line = outdented(line, indent).trim_end();
        if line.is_empty() {
            line_ends += usize::from(!text.is_empty());
            continue;
        }
        let is_unindented = !line.starts_with([' ', '\t']);
        if style == BlockStyle::Folded && is_unindented && joins {
            text.push_str(if line_ends == 0 { " " } else { "" });
        } else {
            line_ends += usize::from(!text.is_empty());
        }
        text.extend(std::iter::repeat_n('\n', line_ends));
        text.push_str(line);
        line_ends = 0;
        joins = is_unindented;
    }
    text
}

/// Removes up to `indent` bytes of leading blanks from a line.
fn outdented(line: &str, indent: usize) -> &str {
    let blanks = line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t'));
    &line[blanks.take(indent).count()..]
}

/// Joins lines like plain text in YAML: with a blank between lines and a line end for each
/// empty line, without comments.
fn joined(first: &str, rest: &str) -> String {
    let mut text = first.trim().to_owned();
    let mut line_ends = 0;
    for line in rest.lines().map(str::trim) {
        if line.is_empty() {
            line_ends += usize::from(!text.is_empty());
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        if line_ends > 0 {
            text.extend(std::iter::repeat_n('\n', line_ends));
        } else if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(line);
        line_ends = 0;
    }
    text
}

/// Removes the quotes around a text, but keeps quotes around a part of it. An opening quote
/// without a closing one is dropped.
pub(super) fn unquoted(text: &str) -> String {
    let (quote, inner) = match text.as_bytes().first() {
        Some(b'"') => ('"', &text[1..]),
        Some(b'\'') => ('\'', &text[1..]),
        _ => return text.to_owned(),
    };
    let (content, after) = until_quote(inner, quote);
    match after {
        Some(after) if !is_comment(after.trim_start()) => text.to_owned(),
        _ => content,
    }
}

/// Returns the text before the closing quote, with escapes decoded, and the text after it, or
/// `None` without a closing quote. An unknown escape, the usual reason for invalid YAML, keeps its
/// backslash.
fn until_quote(inner: &str, quote: char) -> (String, Option<&str>) {
    let mut content = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        if char == quote {
            if quote == '"' || !chars.as_str().starts_with('\'') {
                return (content, Some(chars.as_str()));
            }
            chars.next();
            content.push('\'');
        } else if char == '\\' && quote == '"' {
            decode_escape(&mut chars, &mut content);
        } else {
            content.push(char);
        }
    }
    (content, None)
}

fn decode_escape(chars: &mut std::str::Chars<'_>, content: &mut String) {
    match chars.next() {
        Some('n') => content.push('\n'),
        Some('t') => content.push('\t'),
        Some(char @ ('"' | '\\' | '/')) => content.push(char),
        Some(char) => content.extend(['\\', char]),
        None => content.push('\\'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_words_of_a_value() {
        // name, text after the colon, following lines, value
        let cases = [
            ("plain", "Use when: asked", "", "Use when: asked"),
            (
                "plain over lines",
                "Use when:",
                "  asked\n  # note\n  twice\n\n  more\n",
                "Use when: asked twice\nmore",
            ),
            ("only following lines", "", "\n  a: b: c\n  d", "a: b: c d"),
            ("hash in text", "see #12: it", "", "see #12: it"),
            (
                "folded",
                ">",
                "  one\n  two\n\n  three\n\n",
                "one two\nthree",
            ),
            (
                "folded, stripped, with a comment",
                ">- # note",
                "  one\n  two\n",
                "one two",
            ),
            (
                "folded with deeper lines",
                ">",
                "  list\n    - a\n    - b\n  end\n",
                "list\n  - a\n  - b\nend",
            ),
            (
                "literal",
                "|",
                "    one\n      two\n\n    three\n",
                "one\n  two\n\nthree",
            ),
            ("literal, not indented", "|2-", "one\ntwo", "one\ntwo"),
            ("literal with tabs", "|", "\tone\n\ttwo", "one\ntwo"),
            ("block without lines", ">", "", ""),
            ("no block header", "> see: this", "", "> see: this"),
            ("pipe in text", "|x| is: y", "", "|x| is: y"),
            (
                "double quoted, unknown escape",
                r#""C:\dir \"x\"""#,
                "",
                r#"C:\dir "x""#,
            ),
            ("double quoted over lines", "\"a: b", "  c\"", "a: b c"),
            ("single quoted", "'it''s: so'", "", "it's: so"),
            ("quoted, then a comment", "\"a\" # b", "", "a"),
            ("quoted part", "\"a\" and \"b\"", "", "\"a\" and \"b\""),
            ("quote not closed", "\"a: b", "", "a: b"),
            ("lone quote", "'", "", ""),
            ("lone backslash", "\"\\", "", "\\"),
            ("not ascii", "\"é\\é\"", "", "é\\é"),
        ];
        for (name, first, rest, want) in cases {
            assert_eq!(value(first, rest), want, "{name}");
        }
    }
}
