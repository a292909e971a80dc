//! Finds text that renderers hide and the parser does not: in a table that begins inside a
//! paragraph, a CDATA section with a `]`, or brackets that GitHub drops.
//!
//! Reports too much rather than too little, because ordinary text rarely looks like this.

use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::super::super::markdown::{BLANKS, Markdown, ODD, after_marks, is_inline};
use super::{Found, Text};

/// Adds the long parts that renderers hide and the parser reads as visible.
pub(super) fn add_unseen(found: &mut Found<'_>, markdown: &Markdown) {
    let text = &*markdown.text;
    let mut is_code = false;
    // The lines of text since the last block began or ended.
    let mut lines: Option<Range<usize>> = None;
    let mut brackets = Brackets::default();
    for (event, range) in markdown.parser().into_offset_iter() {
        match &event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Text(_) if !is_code => brackets.read(text, &range),
            Event::SoftBreak | Event::HardBreak => brackets.line += 1,
            _ => {}
        }
        if is_inline(&event) && !is_code {
            let start = lines.map_or(range.start, |lines| lines.start);
            lines = Some(start..range.end);
        } else if let Some(lines) = lines.take() {
            add_further_cells(found, text, lines.clone());
            brackets.add_to(found, &text[..lines.end]);
            brackets = Brackets::default();
        }
    }
}

const CDATA: &str = "<![CDATA[";

/// Finds text in brackets, such as `[^…]`, that spans several lines. GitHub does not show it,
/// unless it is the label of a footnote.
#[derive(Default)]
struct Brackets {
    /// The number of line ends before the text that is read.
    line: usize,
    /// The start of each open bracket, and its line if a `^` follows.
    open: Vec<(usize, Option<usize>)>,
    /// The text in brackets that GitHub does not show.
    dropped: Vec<Range<usize>>,
    /// The end of the text that was read.
    end: usize,
    /// The starts of CDATA sections. The parser accepts none with a `]` in it.
    sections: Vec<usize>,
}

impl Brackets {
    /// Reads text that is neither code nor a tag.
    fn read(&mut self, text: &str, range: &Range<usize>) {
        let gap = text.get(self.end..range.start);
        let is_escaped = gap.is_some_and(|gap| gap.ends_with('\\'));
        self.end = range.end;
        for at in range.clone().skip(usize::from(is_escaped)) {
            match text.as_bytes()[at] {
                b'<' if text[at..].starts_with(CDATA) => self.sections.push(at),
                b'[' => {
                    let has_caret = matches!(text.as_bytes().get(at + 1), Some(b'^' | &ODD));
                    self.open.push((at, has_caret.then_some(self.line)));
                }
                // A rewritten bracket in a line that is no footnote.
                ODD if !text[..at].ends_with('[') => self.open.push((at, None)),
                b']' => {
                    if let Some((start, Some(line))) = self.open.pop()
                        && line < self.line
                    {
                        self.dropped.push(start..at);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the text of sections, and the dropped text that is in no other dropped text. `text` is
    /// the file up to the end of the paragraph.
    fn add_to(mut self, found: &mut Found<'_>, text: &str) {
        let mut end = 0;
        for start in self.sections {
            if start < end {
                continue;
            }
            let Some(length) = text[start..].find("]]>") else {
                break;
            };
            end = start + length;
            found.add(start, Text::from(&text[start + CDATA.len()..end]));
        }
        self.dropped.sort_by_key(|range| range.start);
        let mut end = 0;
        for range in self.dropped {
            if range.start >= end {
                end = range.end;
                found.add(range.start, Text::from(&text[range]));
            }
        }
    }
}

/// Adds the cells beyond the columns of a table that begins in these lines. If several tables could
/// begin there, assumes the one with the fewest columns.
fn add_further_cells(found: &mut Found<'_>, text: &str, lines: Range<usize>) {
    let mut at = lines.start;
    let mut columns = None;
    let mut cells_before = 0;
    for line in text[lines].split_inclusive('\n') {
        let row = after_marks(line);
        let begun = columns_of(row).filter(|columns| *columns == cells_before);
        columns = columns.into_iter().chain(begun).min();
        if let Some(columns) = columns {
            found.add(at, cells_beyond(row, columns));
        }
        cells_before = cells_of(row);
        at += line.len();
    }
}

/// Returns the number of cells in a header, in which only a `|` without a `\` separates them.
fn cells_of(line: &str) -> usize {
    let line = line.trim();
    let inner = line.strip_prefix('|').unwrap_or(line);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    1 + inner.matches('|').count() - inner.matches("\\|").count()
}

/// If a line can separate the header of a table from its rows, returns the number of columns.
fn columns_of(line: &str) -> Option<usize> {
    let line = line.trim();
    let is_second = |c: char| "|-:".contains(c) || BLANKS.contains(&c);
    let is_table = line.contains('-') && line.contains(['|', ':']) && line.chars().all(is_second);
    let inner = line.strip_prefix('|').unwrap_or(line);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    is_table.then(|| inner.split('|').count())
}

/// Returns the text of a row beyond this many columns.
fn cells_beyond(line: &str, columns: usize) -> Text {
    let line = line.strip_prefix('|').unwrap_or(line);
    let ends = line.match_indices('|');
    let mut ends = ends.filter(|(at, _)| !line[..*at].ends_with('\\'));
    let beyond = ends.nth(columns - 1).map(|(at, _)| &line[at + 1..]);
    Text::from(beyond.unwrap_or_default())
}
