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

/// Converts byte offsets in a text to line numbers. An offset before the previous one has the
/// line of the previous one.
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
        let at = at.max(self.at);
        let before = &self.text.as_bytes()[self.at..at];
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        self.line += u32::try_from(lines).unwrap_or(0);
        self.at = at;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_do_not_go_back() {
        let mut lines = LineCounter::new("a\nb\nc", 1);
        assert_eq!([4, 0, 2, 5].map(|at| lines.line_of(at)), [3; 4]);
    }
}
