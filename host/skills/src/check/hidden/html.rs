//! Finds the text of HTML that browsers do not show: comments, declarations, and the attributes of
//! tags.

use std::borrow::Cow;

use super::super::markdown::LAZY_IMAGE;

const COMMENT: &str = "<!--";

/// The start of a comment, unless a letter or `>` follows.
const END_TAG: &str = "</";

/// Markup that browsers do not show: its start, its end, and the offset at which the end may begin.
/// The first start that fits applies. `<!-->` is a complete comment, so its end may overlap its
/// start.
const MARKUP: [(&str, &str, usize); 5] = [
    (COMMENT, "-->", 2),
    ("<![CDATA[", "]]>", 9),
    ("<?", "?>", 2),
    ("<!", ">", 2),
    (END_TAG, ">", 2),
];

/// The maximum number of ordinary attributes of a tag. In 7,900 tags of public skills, none has
/// more than 15.
const MAX_ATTRIBUTES: usize = 16;

/// A tag, or markup that browsers do not show. Offsets are in bytes.
pub(super) struct Markup<'a> {
    pub(super) start: usize,
    /// The text that it hides in the HTML.
    pub(super) hidden: Cow<'a, str>,
    /// The end of the markup. `None` if it hides the rest of the page.
    pub(super) end: Option<usize>,
}

/// Returns HTML with a blank in place of each `>` that marks a line in this many quotes.
pub(super) fn without_marks(html: &str, quotes: usize) -> String {
    let mut left = 0;
    let blanked = html.chars().map(|c| {
        match c {
            '\n' | '\r' => left = quotes,
            ' ' | '\t' => {}
            '>' if left > 0 => {
                left -= 1;
                return ' ';
            }
            _ => left = 0,
        }
        c
    });
    blanked.collect()
}

/// Returns the first markup after the byte `at` of HTML, which is a block or a tag without the
/// marks of quotes.
///
/// The end must be in the same HTML, because pages escape the `>` of other text.
pub(super) fn first_markup(html: &str, mut at: usize) -> Option<Markup<'_>> {
    loop {
        let start = at + html[at..].find('<')?;
        let rest = &html[start..];
        if is_tag(rest) {
            let (hidden, end) = match read_tag(rest) {
                Some((attributes, length)) => (Cow::Owned(attributes), Some(start + length)),
                None => (Cow::Borrowed(rest), None),
            };
            return Some(Markup { start, hidden, end });
        }
        let fits = |(open, _, _): &(&str, _, _)| {
            let after = rest.strip_prefix(*open);
            after.is_some_and(|after| *open != END_TAG || after.starts_with(|c: char| c != '>'))
        };
        let Some((open, close, min_end)) = MARKUP.into_iter().find(fits) else {
            at = start + 1;
            continue;
        };
        let end = rest[min_end..].find(close).map(|end| min_end + end);
        // Browsers end a comment at `--!>` too, and other markup at its first `>`, which can look
        // like the mark of a quote. A tag or comment can begin after it.
        let early = if open == COMMENT { "--!>" } else { open };
        let begins_more = |end: &usize| {
            let after = rest[..*end].split_once(early);
            after.is_some_and(|(_, after)| after.contains('<'))
        };
        let end = end.filter(|end| !begins_more(end));
        let hidden = end.map_or(rest, |end| &rest[open.len().min(end)..end]);
        return Some(Markup {
            start,
            hidden: Cow::Borrowed(hidden),
            end: end.map(|end| start + end + close.len()),
        });
    }
}

/// Returns whether HTML hides the rest of the page.
pub(super) fn hides_rest(html: &str) -> bool {
    let mut at = 0;
    while let Some(markup) = first_markup(html, at) {
        let Some(end) = markup.end else {
            return true;
        };
        at = end;
    }
    false
}

/// Returns whether HTML begins with a tag.
fn is_tag(html: &str) -> bool {
    let name = html.strip_prefix(END_TAG).or(html.strip_prefix('<'));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// A part of a tag, as browsers read it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    TagName,
    /// The text before an attribute.
    Gap,
    Name,
    AfterName,
    BeforeValue,
    Value,
    /// A value in this quotation mark.
    Quoted(u8),
    End,
}

impl Part {
    /// Returns the part to which the next byte belongs.
    fn after(self, byte: u8) -> Self {
        let is_blank = byte.is_ascii_whitespace();
        match (self, byte) {
            (Self::Quoted(quote), _) if byte == quote => Self::Gap,
            (Self::Quoted(_), _) => self,
            (_, b'>') => Self::End,
            (Self::BeforeValue, b'"' | b'\'') => Self::Quoted(byte),
            (Self::BeforeValue, _) if is_blank => self,
            (Self::BeforeValue, _) => Self::Value,
            (Self::Value, _) if !is_blank => self,
            (Self::TagName, _) if !is_blank && byte != b'/' => self,
            (Self::Name | Self::AfterName, b'=') => Self::BeforeValue,
            (Self::Name | Self::AfterName, _) if is_blank => Self::AfterName,
            (_, b'/') => Self::Gap,
            _ if is_blank => Self::Gap,
            _ => Self::Name,
        }
    }
}

/// Returns the part of a text that cannot be an address: all of a text with blanks, and otherwise
/// the characters that are not ASCII, because Chinese prose has no blanks.
pub(super) fn without_address(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_whitespace) {
        text.into()
    } else {
        text.chars().filter(|c| !c.is_ascii()).collect()
    }
}

/// Reads the tag at the start of HTML. Returns the text of its attributes, and its length. Returns
/// `None` if the tag has no end: browsers then read the text after it as attributes.
///
/// In ordinary attributes, leaves out names in ASCII and values that can be addresses. Also leaves
/// out the first `alt` of an image, which browsers show instead of it.
fn read_tag(html: &str) -> Option<(String, usize)> {
    let mut part = Part::TagName;
    let mut start = 0;
    let mut is_image = false;
    let (mut is_alt, mut has_alt) = (false, false);
    let mut count = 0;
    let mut attributes = String::new();
    for (at, byte) in html.bytes().enumerate().skip(2) {
        let next = part.after(byte);
        if next == part {
            continue;
        }
        let text = &html[start..at];
        if part == Part::TagName {
            is_image = text.eq_ignore_ascii_case("<img") || &text[1..] == LAZY_IMAGE;
        }
        if part == Part::Name {
            count += 1;
            is_alt = is_image && !has_alt && text.eq_ignore_ascii_case("alt");
            has_alt |= is_alt;
        }
        let has_value = next == Part::BeforeValue;
        let hidden = match part {
            Part::Name if has_value && count <= MAX_ATTRIBUTES => without_address(text),
            Part::Value | Part::Quoted(_) if is_alt => Cow::default(),
            Part::Value | Part::Quoted(_) if count <= MAX_ATTRIBUTES => without_address(text),
            Part::Name | Part::Value | Part::Quoted(_) => text.into(),
            _ => Cow::default(),
        };
        if !hidden.is_empty() {
            attributes.push_str(&hidden);
            attributes.push(' ');
        }
        if next == Part::End {
            return Some((attributes, at + 1));
        }
        // A value starts after its quotation mark.
        start = at + usize::from(matches!(next, Part::Quoted(_)));
        part = next;
    }
    None
}
