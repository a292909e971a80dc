//! Begins blocks at tags after a quote or list.
//!
//! A tag that is alone on its line begins a block, unless it continues a paragraph. In GitHub, it
//! also does if it follows a quote, list or footnote without the marks of these.

use std::collections::HashSet;
use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{BLANKS, after_mark, is_inline, options};

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
    let name = &mut tag[start..][..length.unwrap_or_default()];
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
    // The first column of the text of each open item and footnote.
    let mut columns = Vec::new();
    // The lines of text since the last block began or ended.
    let mut lines: Option<Range<usize>> = None;
    // True in code and tables, whose lines have all marks.
    let mut is_closed = false;
    // The start of the line of the last byte that was looked at, and that byte.
    let (mut line_start, mut looked_at) = (0, 0);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        if is_inline(&event) && !is_closed {
            let start = lines.map_or(range.start, |lines| lines.start);
            lines = Some(start..range.end);
            continue;
        }
        if let Some(lines) = lines.take()
            && (quotes > 0 || !columns.is_empty())
        {
            if let Some(end) = text[looked_at..lines.start].rfind(['\n', '\r']) {
                line_start = looked_at + end + 1;
            }
            looked_at = lines.start;
            let columns = columns.last().copied();
            add_tags(&mut found, text, line_start..lines.end, (quotes, columns));
        }
        match event {
            Event::Start(Tag::BlockQuote(_)) => quotes += 1,
            Event::End(TagEnd::BlockQuote(_)) => quotes -= 1,
            Event::Start(Tag::Item | Tag::FootnoteDefinition(_)) => {
                let outer = columns.last().copied().unwrap_or_default();
                columns.push(text_column(text, range.start, outer));
            }
            Event::End(TagEnd::Item | TagEnd::FootnoteDefinition) => drop(columns.pop()),
            Event::Start(Tag::CodeBlock(_) | Tag::Table(_)) => is_closed = true,
            Event::End(TagEnd::CodeBlock | TagEnd::Table) => is_closed = false,
            _ => {}
        }
    }
    found
}

/// Adds the tags that are alone on a line, and have fewer `>` before them than quotes are open, or
/// are left of the text of the innermost item.
fn add_tags(
    found: &mut Vec<Range<usize>>,
    text: &str,
    lines: Range<usize>,
    (quotes, item): (usize, Option<usize>),
) {
    let mut at = lines.start;
    for line in text[lines].split_inclusive(['\n', '\r']) {
        let html = after_marks(line);
        let marks = &line[..line.len() - html.len()];
        let is_lazy =
            marks.matches('>').count() < quotes || item.is_some_and(|item| column(marks) < item);
        if is_lazy && begins_block(html) {
            let start = at + marks.len();
            found.push(start..start + html.trim_ascii_end().len());
        }
        at += line.len();
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

/// Returns the column of the text of the list item or footnote that starts at the byte `at`. `outer`
/// is that of the text around it.
fn text_column(text: &str, at: usize, outer: usize) -> usize {
    let line_start = text[..at].rfind(['\n', '\r']).map_or(0, |end| end + 1);
    let rest = text[at..].trim_start_matches(BLANKS);
    let at = text.len() - rest.len();
    let line = &rest[..rest.find(['\n', '\r']).unwrap_or(rest.len())];
    if line.starts_with('[') {
        let before = text[line_start..at].trim_end_matches(BLANKS);
        return outer.max(column(before)) + 4;
    }
    let after = after_mark(line).unwrap_or_default();
    let content = after.trim_start_matches(BLANKS);
    let end = at + line.len();
    let mark_end = column(&text[line_start..end - after.len()]);
    let start = column(&text[line_start..end - content.len()]);
    // More than four blanks are those of code.
    if content.is_empty() || start > mark_end + 4 {
        mark_end + 1
    } else {
        start
    }
}

/// Returns the number of columns of a part of a line. A `>` has two, with the blank that may follow.
fn column(part: &str) -> usize {
    let mut columns = 0;
    let mut chars = part.chars().peekable();
    while let Some(c) = chars.next() {
        columns = match c {
            '\t' => (columns / 4 + 1) * 4,
            '>' => {
                chars.next_if_eq(&' ');
                columns + 2
            }
            _ => columns + 1,
        };
    }
    columns
}
