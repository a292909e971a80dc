//! Blocks of Markdown in which a fence opens no code block: HTML, and indented code.

use super::super::links::{Fence, closing_fence};

/// The minimum columns of indentation that make a line outside of a list code.
const CODE_INDENT: usize = 4;

/// The tags that start a block of HTML, even within a paragraph.
const BLOCK_TAGS: [&str; 66] = [
    "address",
    "article",
    "aside",
    "base",
    "basefont",
    "blockquote",
    "body",
    "caption",
    "center",
    "col",
    "colgroup",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "iframe",
    "legend",
    "li",
    "link",
    "main",
    "menu",
    "menuitem",
    "nav",
    "noframes",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "pre",
    "script",
    "search",
    "section",
    "style",
    "summary",
    "table",
    "tbody",
    "td",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "track",
    "ul",
];

/// The longest closing fence after each line of a text.
pub(super) struct ClosingFences {
    /// For each line, the length in backticks and in tildes.
    after: Vec<[usize; 2]>,
}

impl ClosingFences {
    pub(super) fn of(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut after = vec![[0; 2]; lines.len()];
        let mut longest = [0; 2];
        for (line, after) in lines.iter().zip(&mut after).rev() {
            *after = longest;
            if let Some(fence) = closing_fence(line) {
                let longest = &mut longest[usize::from(fence.mark == b'~')];
                *longest = fence.length.max(*longest);
            }
        }
        Self { after }
    }

    /// Returns whether a later line closes a fence.
    pub(super) fn has(&self, fence: Fence, line: usize) -> bool {
        self.after[line][usize::from(fence.mark == b'~')] >= fence.length
    }
}

/// The state of a block of HTML, which ends at a blank line. It contains no Markdown.
pub(super) struct HtmlBlock {
    is_open: bool,
    is_after_blank: bool,
}

impl Default for HtmlBlock {
    fn default() -> Self {
        Self {
            is_open: false,
            is_after_blank: true,
        }
    }
}

impl HtmlBlock {
    /// Updates the state after a line outside of code.
    pub(super) fn update(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            self.is_open = false;
        } else if starts_block(line) || self.is_after_blank && is_tag(line) {
            self.is_open = true;
        }
        self.is_after_blank = line.is_empty();
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }
}

/// Returns whether a line starts with one of the [`BLOCK_TAGS`].
fn starts_block(line: &str) -> bool {
    let Some(tag) = line.strip_prefix('<') else {
        return false;
    };
    let tag = tag.strip_prefix('/').unwrap_or(tag);
    let end = tag.find(|c: char| !c.is_ascii_alphanumeric());
    let (name, rest) = tag.split_at(end.unwrap_or(tag.len()));
    let is_end = rest.is_empty() || rest.starts_with(['>', ' ', '\t']) || rest.starts_with("/>");
    is_end && BLOCK_TAGS.iter().any(|tag| name.eq_ignore_ascii_case(tag))
}

/// Returns whether a line is one tag with any name.
fn is_tag(line: &str) -> bool {
    let inner = line
        .strip_prefix('<')
        .and_then(|line| line.strip_suffix('>'));
    inner.is_some_and(|inner| {
        let tag = inner.strip_prefix('/').unwrap_or(inner);
        let end = tag.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let (name, rest) = tag.split_at(end.unwrap_or(tag.len()));
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && (rest.is_empty() || rest.starts_with([' ', '\t', '/']))
            && !rest.contains(['<', '>'])
    })
}

/// The state of the lists in a text. Lines in a list may be indented without being code.
#[derive(Default)]
pub(super) struct Lists {
    is_open: bool,
    is_after_blank: bool,
}

impl Lists {
    /// Updates the state after a line outside of code.
    pub(super) fn update(&mut self, line: &str) {
        let text = line.trim_start();
        if is_item(text) {
            self.is_open = true;
        } else if !text.is_empty() && indent(line) == 0 && self.is_after_blank {
            self.is_open = false;
        }
        self.is_after_blank = text.is_empty();
    }

    /// Returns whether a line can be a fence, because it is not indented code.
    pub(super) fn allow_fence(&self, line: &str) -> bool {
        self.is_open || indent(line) < CODE_INDENT
    }
}

/// Returns whether a line starts an item of a list.
fn is_item(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = digits.len() < text.len();
    let mark = if is_number { &['.', ')'] } else { &['-', '*'] };
    let after = match digits.strip_prefix(mark) {
        None if !is_number => digits.strip_prefix('+'),
        after => after,
    };
    after.is_some_and(|after| after.is_empty() || after.starts_with([' ', '\t']))
}

/// Returns the number of columns before the text of a line.
pub(super) fn indent(line: &str) -> usize {
    let mut columns = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += CODE_INDENT - columns % CODE_INDENT,
            _ => break,
        }
    }
    columns
}
