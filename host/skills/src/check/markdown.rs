//! Markdown as a renderer reads it.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser};

/// Returns a parser of a Markdown text. It recognizes tables and footnotes, because most renderers
/// show them.
pub(super) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES)
}

/// Returns the byte range of each inline code in a text, including its backticks.
pub(super) fn inline_code(text: &str) -> impl Iterator<Item = Range<usize>> {
    let events = parser(text).into_offset_iter();
    events.filter_map(|(event, range)| matches!(event, Event::Code(_)).then_some(range))
}

/// Converts byte offsets in a text to line numbers. Each offset must be at or after the previous
/// one.
pub(super) struct LineCounter<'a> {
    text: &'a str,
    line: u32,
    at: usize,
}

impl<'a> LineCounter<'a> {
    /// Returns a counter for a text that starts on line `first_line` of its file.
    pub(super) fn new(text: &'a str, first_line: u32) -> Self {
        Self {
            text,
            line: first_line,
            at: 0,
        }
    }

    /// Returns the line number of the byte at the offset `at`.
    pub(super) fn line_of(&mut self, at: usize) -> u32 {
        let before = &self.text.as_bytes()[self.at..at];
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        self.line += u32::try_from(lines).unwrap_or(0);
        self.at = at;
        self.line
    }
}
