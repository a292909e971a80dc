//! Begins blocks at tags after a quote or list.
//!
//! A tag that is alone on its line begins a block, unless it continues a paragraph. In GitHub, it
//! also does if it follows a quote, list or footnote without the marks of these.

use std::collections::HashSet;
use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{BLANKS, is_inline, options, table_columns};

/// The name that replaces `img` in a tag that begins a block, because the parser begins one at each
/// `dir`, in upper or lower case. In a rewritten text, no other tag has the name in this spelling.
pub(in super::super) const LAZY_IMAGE: &str = "dIr";

/// The maximum number of times that a text is parsed. A new block can contain the fence of a code
/// block, so that the next pass finds further tags in what was code. Guards against: thousands of
/// passes.
const MAX_PASSES: usize = 10;

/// Returns a text in which the parser also begins the blocks that only GitHub begins: it gives
/// their tags other names. Returns `None` if that takes more than [`MAX_PASSES`] passes.
pub(super) fn begin_blocks(text: String) -> Option<String> {
    let mut bytes = text.into_bytes();
    let mut seen = HashSet::new();
    for _ in 0..MAX_PASSES {
        // This loses nothing, because only ASCII was replaced, with ASCII.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut tags = lazy_tags(&text);
        tags.retain(|tag| seen.insert(tag.start));
        if tags.is_empty() {
            return Some(text);
        }
        for tag in tags {
            rename(&mut bytes[tag]);
        }
    }
    None
}

/// Gives a tag a name with which it always begins a block.
fn rename(tag: &mut [u8]) {
    let start = if tag[1] == b'/' { 2 } else { 1 };
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let length = tag[start..].iter().position(|byte| !is_of_name(byte));
    let end = length.map_or(tag.len(), |length| start + length);
    let name = &mut tag[start..end];
    if name.eq_ignore_ascii_case(b"img") {
        name.copy_from_slice(LAZY_IMAGE.as_bytes());
        return;
    }
    name.fill(b' ');
    name[0] = b'p';
}

/// Returns the tags that begin a block in GitHub only.
fn lazy_tags(text: &str) -> Vec<Range<usize>> {
    // Most texts have no tag at the start of a line.
    if !text
        .split(['\n', '\r'])
        .any(|line| is_tag(after_marks(line)))
    {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut quotes = 0;
    // The first column of the text of each open quote, item and footnote, from the last `>`.
    let mut columns = Vec::new();
    // The lines of text since the last block began or ended.
    let mut lines: Option<Range<usize>> = None;
    let mut is_code = false;
    // The end of the last event. After it may be link definitions, which have no events.
    let mut events_end = 0;
    // The start of the line of the last byte that was looked at, and that byte.
    let (mut line_start, mut looked_at) = (0, 0);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        if is_inline(&event) && !is_code {
            let start = lines.map_or(range.start, |lines| lines.start);
            lines = Some(start..range.end);
            events_end = events_end.max(range.end);
            continue;
        }
        let container = (quotes, columns.last().copied().unwrap_or_default());
        if let Some(lines) = lines.take() {
            if let Some(end) = text[looked_at..lines.start].rfind(['\n', '\r']) {
                line_start = looked_at + end + 1;
            }
            looked_at = lines.start;
            add_tags(&mut found, text, line_start..lines.end, container);
        }
        let at = match event {
            Event::End(_) => range.end,
            _ => range.start,
        };
        if at > events_end && !is_code {
            add_tags(&mut found, text, events_end..at, container);
        }
        events_end = match event {
            Event::Start(_) => events_end.max(at),
            _ => events_end.max(range.end),
        };
        match event {
            Event::Start(Tag::BlockQuote(_)) => {
                quotes += 1;
                columns.push(0);
            }
            Event::Start(Tag::Item | Tag::FootnoteDefinition(_)) => {
                columns.push(text_column(text, range.start, container.1));
            }
            Event::End(TagEnd::BlockQuote(_)) => {
                quotes -= 1;
                columns.pop();
            }
            Event::End(TagEnd::Item | TagEnd::FootnoteDefinition) => drop(columns.pop()),
            // A tag ends a table.
            Event::Start(Tag::TableRow) => add_tag(&mut found, text, range),
            Event::Start(Tag::CodeBlock(_) | Tag::Table(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock | TagEnd::Table) => is_code = false,
            _ => {}
        }
    }
    found
}

/// Adds the tags that are alone on a line, and come after the delimiter row of a table, have fewer
/// `>` before them than quotes are open, or are left of the text of the innermost container.
fn add_tags(
    found: &mut Vec<Range<usize>>,
    text: &str,
    lines: Range<usize>,
    (quotes, column_of_text): (usize, usize),
) {
    let mut at = lines.start;
    let mut is_table = false;
    for line in text[lines].split_inclusive(['\n', '\r']) {
        let marks = &line[..line.len() - after_marks(line).len()];
        let is_lazy = marks.matches('>').count() < quotes || column(marks) < column_of_text;
        if is_lazy || is_table {
            add_tag(found, text, at..at + line.len());
        }
        is_table |= line.contains('-') && table_columns(line.trim_end()) > 0;
        at += line.len();
    }
}

/// Adds the tag on a line, if it begins a block.
fn add_tag(found: &mut Vec<Range<usize>>, text: &str, line: Range<usize>) {
    let html = after_marks(&text[line.clone()]);
    if begins_block(html) {
        let start = line.end - html.len();
        found.push(start..start + html.trim_ascii_end().len());
    }
}

/// Returns whether a line of HTML begins a block outside paragraphs.
fn begins_block(html: &str) -> bool {
    is_tag(html) && matches!(Parser::new(html).next(), Some(Event::Start(Tag::HtmlBlock)))
}

fn is_tag(html: &str) -> bool {
    let rest = html.strip_prefix('<');
    rest.is_some_and(|rest| rest.starts_with(|c: char| c == '/' || c.is_ascii_alphabetic()))
}

/// Returns a line without its indentation and the marks of quotes.
pub(in super::super) fn after_marks(line: &str) -> &str {
    line.trim_start_matches(|c| c == '>' || BLANKS.contains(&c))
}

/// Returns the column of the text of the list item or footnote that the parser begins at the byte
/// `at`, sometimes with marks or a line end before it. `outer` is the column of the text around it.
fn text_column(text: &str, at: usize, outer: usize) -> usize {
    let is_before = |c| matches!(c, '>' | '\n' | '\r') || BLANKS.contains(&c);
    let rest = text[at..].trim_start_matches(is_before);
    let at = text.len() - rest.len();
    let line_start = text[..at].rfind(['\n', '\r']).map_or(0, |end| end + 1);
    let before = &text[line_start..at];
    if rest.starts_with('[') {
        return outer.max(column(before.trim_end_matches(BLANKS))) + 4;
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let after = rest.get(digits + 1..).unwrap_or_default();
    let content = after.trim_start_matches(BLANKS);
    let is_empty = content.is_empty() || content.starts_with(['\n', '\r']);
    let mark_end = column(&text[line_start..text.len() - after.len()]);
    let start = column(&text[line_start..text.len() - content.len()]);
    // More than four blanks are those of code.
    let start = if is_empty || start > mark_end + 4 {
        mark_end + 1
    } else {
        start
    };
    if after_marks(before).starts_with("[^") {
        // The text of a footnote begins after its label.
        return outer + start - column(before);
    }
    start.max(outer + 2)
}

/// Returns the number of columns of a part of a line, after its last `>` and a blank.
fn column(part: &str) -> usize {
    let (mut columns, mut start) = (0, 0);
    let mut chars = part.chars().peekable();
    while let Some(c) = chars.next() {
        columns = match c {
            '\t' => (columns / 4 + 1) * 4,
            _ => columns + 1,
        };
        if c == '>' {
            let has_blank = matches!(chars.peek(), Some(' ' | '\t'));
            start = columns + usize::from(has_blank);
        }
    }
    columns.saturating_sub(start)
}
