//! Finds text that renderers hide and the parser does not: in a table in a paragraph, a block of
//! HTML after a quote or list, a CDATA section with a `]`, or brackets that GitHub drops.
//!
//! Reports too much rather than too little, because ordinary text rarely looks like this.

use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::super::super::markdown::{BLANKS, Markdown, ODD};
use super::{Found, Text, add_markup};

/// Adds the long parts that renderers hide and the parser reads as visible.
pub(super) fn add_unseen(found: &mut Found<'_>, markdown: &Markdown) {
    let text = &*markdown.text;
    // The quotes, items and footnotes around an event.
    let mut depth = 0;
    let mut is_code = false;
    // The lines of text since the last block began or ended.
    let mut lines: Option<Range<usize>> = None;
    let mut brackets = Brackets::default();
    let mut html_end = 0;
    for (event, range) in markdown.parser().into_offset_iter() {
        match &event {
            Event::Start(Tag::BlockQuote(_) | Tag::Item | Tag::FootnoteDefinition(_)) => depth += 1,
            Event::End(TagEnd::BlockQuote(_) | TagEnd::Item | TagEnd::FootnoteDefinition) => {
                depth -= 1;
            }
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::InlineHtml(_)
                if depth > 0 && range.start >= html_end && is_alone(text, &range) =>
            {
                // After a quote or list, such a tag begins a block, until a blank line.
                let end = blank_line(text, range.end);
                html_end = add_markup(found, range.start..end, 0);
            }
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
    /// The starts of CDATA sections. The parser accepts none with a `]` in it.
    sections: Vec<usize>,
}

impl Brackets {
    /// Reads text that is neither code nor a tag.
    fn read(&mut self, text: &str, range: &Range<usize>) {
        let is_escaped = text[..range.start].ends_with('\\');
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

fn is_inline(event: &Event<'_>) -> bool {
    match event {
        Event::Start(tag) => is_inline_tag(tag.to_end()),
        Event::End(tag) => is_inline_tag(*tag),
        Event::Html(_) | Event::Rule => false,
        _ => true,
    }
}

fn is_inline_tag(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image
    )
}

/// Returns whether a tag is alone on its line.
fn is_alone(text: &str, tag: &Range<usize>) -> bool {
    let before = text[..tag.start].trim_end_matches(BLANKS);
    let after = text[tag.end..].trim_start_matches(BLANKS);
    before.ends_with('\n') && (after.is_empty() || after.starts_with(['\r', '\n']))
}

/// Returns the offset of the first blank line after the byte `at`.
fn blank_line(text: &str, at: usize) -> usize {
    let mut end = at;
    for line in text[at..].split_inclusive('\n') {
        if end > at && line.trim_ascii().is_empty() {
            break;
        }
        end += line.len();
    }
    end
}

/// Adds the cells beyond the columns of a table that begins in these lines.
fn add_further_cells(found: &mut Found<'_>, text: &str, lines: Range<usize>) {
    let start = lines.start;
    let mut at = start;
    let mut columns = None;
    for line in text[lines].split_inclusive('\n') {
        let row = without_marks(line);
        match columns {
            Some(columns) => found.add(at, cells_beyond(row, columns)),
            None if at > start => columns = columns_of(row),
            // The header.
            None => {}
        }
        at += line.len();
    }
}

/// Returns a line without its indentation and the marks of quotes.
fn without_marks(line: &str) -> &str {
    line.trim_start_matches(|c| c == '>' || BLANKS.contains(&c))
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
    let beyond = line.splitn(columns + 1, '|').nth(columns);
    Text::from(beyond.unwrap_or_default())
}
