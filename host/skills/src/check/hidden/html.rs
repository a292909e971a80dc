//! Finds the markup of HTML that browsers do not show: comments and declarations.

use std::ops::Range;

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

/// Markup that browsers do not show. Offsets are in bytes.
pub(super) struct Markup {
    pub(super) start: usize,
    /// The text that it hides.
    pub(super) inner: Range<usize>,
    /// The end of the markup. `None` if it hides the rest of the page.
    pub(super) end: Option<usize>,
}

/// Returns the first markup that browsers do not show at the bytes `html` of a text, which are a
/// block of HTML or a tag.
///
/// The end must be at these bytes too, because pages escape the `>` of other text.
pub(super) fn first_markup(text: &str, html: Range<usize>) -> Option<Markup> {
    let mut at = html.start;
    loop {
        let start = at + text[at..html.end].find('<')?;
        let rest = &text[start..html.end];
        let is_odd = |c: char| c != '>' && !c.is_ascii_alphabetic();
        let fits = |(open, _, _): &(&str, _, _)| {
            let after = rest.strip_prefix(*open);
            after.is_some_and(|after| *open != END_TAG || after.starts_with(is_odd))
        };
        let Some((open, close, min_end)) = MARKUP.into_iter().find(fits) else {
            at = start + 1;
            continue;
        };
        let end = rest[min_end..].find(close).map(|end| min_end + end);
        // Browsers end a declaration at its first `>`. A comment can begin after it.
        let has_comment = |end: &usize| {
            let after = rest[..*end].split_once('>');
            open != COMMENT && after.is_some_and(|(_, after)| after.contains(COMMENT))
        };
        let end = end.filter(|end| !has_comment(end));
        let inner_end = end.map_or(text.len(), |end| start + end);
        return Some(Markup {
            start,
            inner: (start + open.len()).min(inner_end)..inner_end,
            end: end.map(|end| start + end + close.len()),
        });
    }
}

/// Returns whether the HTML at `html` in a text hides the rest of the page.
pub(super) fn hides_rest(text: &str, mut html: Range<usize>) -> bool {
    while let Some(markup) = first_markup(text, html.clone()) {
        let Some(end) = markup.end else {
            return true;
        };
        html.start = end;
    }
    false
}
