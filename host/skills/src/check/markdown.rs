//! Markdown as a renderer reads it.

mod lazy;
mod renderer;

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, TagEnd};

pub(super) use lazy::{LAZY_IMAGE, after_marks};
use renderer::Renderer;

/// The maximum size of a text, in bytes, which is that of a linked file. Guards against: the memory
/// for a text of brackets, each of which takes 48 bytes.
const MAX_BYTES: usize = 1 << 20;

/// The maximum depth of nested lists, quotes and footnotes. Guards against: a paragraph in
/// thousands of them, all of which the parser visits for each line.
const MAX_DEPTH: usize = 100;

/// The maximum number of cells in the tables of a text. Guards against: the memory for empty cells,
/// which the parser adds to short rows. It reads the rest of the text wrongly if it adds more than
/// this number to one table.
const MAX_CELLS: usize = 1 << 18;

/// The maximum number of bytes that the parser visits for the titles of links in a text. For each
/// line of a title, it visits all bytes from the link to that line. Guards against: a title with
/// thousands of lines, or with a million brackets and hundreds of lines.
const MAX_TITLE_VISITS: usize = 1 << 24;

/// The character that replaces a character of a label, if the parser reads the label differently
/// than renderers do. A label with it is treated as not shown.
pub(super) const ODD: u8 = 1;

/// The character that replaces a `\` if renderers do not read it as an escape.
pub(super) const ODD_ESCAPE: u8 = 2;

/// The characters that the parser ignores at the start of a line, and in a blank line.
pub(super) const BLANKS: [char; 4] = [' ', '\t', '\u{b}', '\u{c}'];

/// A Markdown text as a group of renderers reads it. Has no content if the text has an [`Excess`].
#[derive(Default, PartialEq)]
pub(super) struct Markdown {
    /// The text of the file, rewritten for the parser. Offsets are those of the file's text.
    pub(super) text: String,
}

/// Why a text takes too much time or memory to parse, and the line where that shows.
pub(super) type Excess = (u32, String);

impl Markdown {
    /// Reads a text as GitHub does.
    pub(super) fn read(text: &str) -> Self {
        let reading = read_as(&[Renderer::GitHub], text, 0).unwrap_or_default();
        reading.into_iter().next().unwrap_or_default()
    }

    /// Reads a text as each group of renderers does. Returns the different results. `first_line` is
    /// the line of the file on which the text starts. Takes linear time.
    pub(super) fn readings(text: &str, first_line: u32) -> Result<Vec<Self>, Excess> {
        let renderers = [Renderer::GitHub, Renderer::GitHubLinks, Renderer::Newer];
        read_as(&renderers, text, first_line)
    }

    /// Returns a parser.
    pub(super) fn parser(&self) -> Parser<'_> {
        Parser::new_ext(&self.text, options())
    }
}

/// Returns the extensions of tables and footnotes, because most renderers show them.
fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES
}

/// Returns whether an event is a part of a paragraph or another line of text.
pub(super) fn is_inline(event: &Event<'_>) -> bool {
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

fn read_as(renderers: &[Renderer], text: &str, first_line: u32) -> Result<Vec<Markdown>, Excess> {
    let check = |text: &str| excess(text, first_line).map_or(Ok(()), Err);
    check(text)?;
    let rewritten = renderers
        .iter()
        .map(|it| (it.begins_lazy_blocks(), it.rewrite(text)));
    let mut rewritten: Vec<(bool, String)> = rewritten.collect();
    rewritten.dedup();
    let mut readings = Vec::new();
    for (begins_lazy_blocks, mut rewritten) in rewritten {
        if rewritten != text {
            check(&rewritten)?;
        }
        if begins_lazy_blocks {
            let why = "too many tags after quotes or lists, each in a code block after another tag";
            let too_many = || (first_line, why.to_owned());
            rewritten = lazy::begin_blocks(rewritten).ok_or_else(too_many)?;
        }
        readings.push(Markdown { text: rewritten });
    }
    readings.dedup();
    Ok(readings)
}

/// Returns the excess of a text as the parser reads it.
///
/// Overestimates depths, cells and titles: it counts those in code too, and the lines between a
/// table or a link and the next blank line.
fn excess(text: &str, first_line: u32) -> Option<Excess> {
    if text.len() > MAX_BYTES {
        return Some((first_line, format!("more than {MAX_BYTES} bytes")));
    }
    let (mut columns, mut cells) = (0, 0);
    // The number of bytes from the line with the first open link of a paragraph.
    let mut link_bytes = 0;
    let mut visits = 0;
    for (line, number) in text.lines().zip(first_line..) {
        // The parser also ends a line at a single CR.
        for line in line.split('\r') {
            if depth(line) > MAX_DEPTH {
                let why = format!("more than {MAX_DEPTH} lists, quotes or footnotes in each other");
                return Some((number, why));
            }
            // Other blanks do not end a paragraph.
            let is_blank = line.trim_start_matches([' ', '\t']).is_empty();
            columns = if is_blank {
                0
            } else {
                columns.max(table_columns(line))
            };
            if is_blank || starts_item(line) {
                link_bytes = 0;
            }
            if link_bytes > 0 || leaves_link_open(line) {
                link_bytes += line.len() + 1;
            }
            visits += link_bytes;
            if visits > MAX_TITLE_VISITS {
                let why = "long paragraphs with links that have titles or line breaks";
                return Some((number, why.to_owned()));
            }
            cells += columns;
            if cells > MAX_CELLS {
                let why = format!("tables with more than {MAX_CELLS} cells");
                return Some((number, why));
            }
        }
    }
    None
}

/// Returns the maximum depth of the lists, quotes and footnotes around the end of a line that
/// starts some of them. Each has a mark, or at least two columns of indentation.
fn depth(line: &str) -> usize {
    let (mut depth, mut columns) = (0, 0);
    let mut rest = line;
    loop {
        let text = rest.trim_start_matches(BLANKS);
        let blanks = &rest[..rest.len() - text.len()];
        // A tab has at most four columns.
        columns += blanks.len() + 3 * blanks.matches('\t').count();
        let Some(after) = after_mark(text) else {
            return depth;
        };
        columns += 2;
        depth = columns / 2;
        rest = after;
    }
}

/// Returns the text after the mark of a list item, quote or footnote.
pub(super) fn after_mark(text: &str) -> Option<&str> {
    if let Some(label) = text.strip_prefix("[^") {
        let (_, after) = split_at_end(label, ']')?;
        return after.strip_prefix(':');
    }
    if let Some(after) = text.strip_prefix('>') {
        return Some(after);
    }
    let after_number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let after = if after_number.len() < text.len() {
        after_number.strip_prefix(['.', ')'])?
    } else {
        text.strip_prefix(['-', '*', '+'])?
    };
    (after.is_empty() || after.starts_with(BLANKS)).then_some(after)
}

/// Returns whether a line starts a list item of a kind that always ends the paragraph before it.
fn starts_item(line: &str) -> bool {
    let text = line.trim_start_matches(' ');
    let item = text.strip_prefix(['-', '*', '+']);
    let item = item.filter(|item| item.starts_with(' ') && !item.trim_start().is_empty());
    line.len() - text.len() < 4 && item.is_some()
}

/// Returns whether a line has a link that may have a title or continue on the next line.
fn leaves_link_open(line: &str) -> bool {
    line.split("](").skip(1).any(|after| {
        let end = after.find(|c: char| c.is_whitespace() || "()<\"'\\".contains(c));
        end.is_none_or(|end| !after[end..].starts_with(')'))
    })
}

/// Returns the maximum number of columns of a table whose second line is this one. Returns 0 for
/// any other line.
fn table_columns(line: &str) -> usize {
    let is_second = |c: char| "|-:>".contains(c) || BLANKS.contains(&c);
    let pipes = line.matches('|').count();
    if pipes > 0 && line.chars().all(is_second) {
        pipes + 1
    } else {
        0
    }
}

/// Splits a text at the first `close` that is not escaped.
pub(super) fn split_at_end(text: &str, close: char) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    let end = text.find(|c| {
        let ends = c == close && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })?;
    Some((&text[..end], &text[end + close.len_utf8()..]))
}

/// Returns the byte range of each inline code in a text, including its backticks.
pub(super) fn inline_code(text: &str) -> Vec<Range<usize>> {
    let markdown = Markdown::read(text);
    let events = markdown.parser().into_offset_iter();
    let code = events.filter(|(event, _)| matches!(event, Event::Code(_)));
    code.map(|(_, range)| range).collect()
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

    #[test]
    fn finds_texts_that_take_too_long_to_parse() {
        let table = |columns: usize, rows: usize| {
            let (head, line) = ("|a".repeat(columns), "|-".repeat(columns));
            format!("{head}\n{line}\n{}", "|a|\n".repeat(rows))
        };
        // Once a tag begins a block, its block takes in the fence, and the next tag is not in code.
        let fences = |count: usize| -> String {
            let lengths = (3..3 + count).rev();
            lengths
                .map(|length| format!("> a\n<b>\n{}\n\n", "~".repeat(length)))
                .collect()
        };
        for (text, expected) in [
            (">".repeat(100), None),
            (format!("a\n{}a", ">".repeat(101)), Some(2)),
            ("- ".repeat(67), None),
            ("- ".repeat(68), Some(1)),
            ("* 1. 2)\t+ > ".repeat(20), Some(1)),
            ("[^a]: ".repeat(67), None),
            ("[^a]: ".repeat(68), Some(1)),
            ("[^a\\]:b]:".repeat(101), Some(1)),
            ("- [^a\\]: ".repeat(68), Some(1)),
            (format!("[^a\\]: {}a\n\n<b>", "+ ".repeat(100_000)), Some(1)),
            (fences(9), None),
            (fences(11), Some(1)),
            (format!("{}- a", " ".repeat(200)), Some(1)),
            (format!("{}- a", "\t".repeat(50)), Some(1)),
            (format!("{}a", " ".repeat(200)), None),
            (format!("a\r{}", ">".repeat(101)), Some(1)),
            ("-".repeat(300), None),
            (format!("a {}", "- ".repeat(100)), None),
            (table(512, 510), None),
            (table(512, 511), Some(513)),
            (table(512, 511).replace('\n', "\r\n"), Some(513)),
            (table(512, 511).replace('\n', "\r"), Some(1)),
            (table(512, 511).replace('\n', "\n> "), Some(513)),
            (table(512, 300) + "|-|\n" + &"|a|\n".repeat(300), Some(513)),
            (table(512, 300) + " \t\n" + &"a\n".repeat(300), None),
            (table(512, 300) + "\n" + &table(512, 300), Some(515)),
            (table(10, 5_000), None),
            (format!("[a](b \"{}", "x\n".repeat(4_092)), None),
            (format!("[a](b \"{}", "x\n".repeat(4_093)), Some(4_093)),
            (
                format!("[a](b \"\n{}", "\u{b}\n".repeat(4_093)),
                Some(4_093),
            ),
            (
                format!("[a](b \"\n{}", "\u{c}\n".repeat(4_093)),
                Some(4_093),
            ),
            (
                format!("[a](b '{}{}", "[".repeat(100_000), "\nx".repeat(200)),
                Some(168),
            ),
            ("[".repeat(1 << 20), None),
            ("\n[".repeat(1 << 19) + "\n", Some(1)),
            ("[a](b 'c')\n\n".repeat(4_000), None),
            ("- [a](b 'c')\n".repeat(4_000), None),
            ("    - [a](b 'c')\n".repeat(4_000), Some(1_405)),
            ("-\n[a](b 'c')\n".repeat(4_000), Some(2_273)),
            ("[a](b)[c](d/e.md#f) ![g](h).\n".repeat(4_000), None),
            ("[a](b) [a](<b>)\n".repeat(4_000), Some(1_448)),
            ("[a](b\\)\n".repeat(4_000), Some(2_048)),
            ("[a](b(c))\n".repeat(4_000), Some(1_832)),
            ("[a](\nb)\n".repeat(4_000), Some(2_896)),
        ] {
            let line = Markdown::readings(&text, 1).err().map(|(line, _)| line);
            assert_eq!(line, expected, "{text}");
        }
    }
}
