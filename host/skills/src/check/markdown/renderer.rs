//! Rewrites a Markdown text so that the parser finds the same blocks in it as a renderer.
//!
//! The parser begins and ends some blocks at other lines than GitHub, markdown-it and the
//! specification. So it could read as code what a page treats as a comment, or the reverse.

use super::{BLANKS, ODD, ODD_ESCAPE, after_mark, lazy};

/// A group of renderers that agree about which tags begin a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Renderer {
    /// GitHub, with version 0.29 of the specification.
    GitHub,
    /// GitHub, with its own rules for the ends of addresses and titles in links, which differ from
    /// the specification.
    GitHubLinks,
    /// Renderers with version 0.31, such as markdown-it.
    Newer,
}

/// An HTML block of one of these tags ends at an end tag, not at a blank line. Renderers accept the
/// end tag of any of them, in upper or lower case. The parser accepts only that of the same tag, in
/// lower case.
const RAW: [&[u8]; 3] = [b"script", b"style", b"pre"];

/// The shortest of the [`RAW`] tags, which replaces the others.
const ONE_RAW: &[u8] = b"pre";

impl Renderer {
    /// Returns a text in which the parser finds the same blocks as this renderer finds in `text`.
    /// The result is as long as `text`.
    pub(super) fn rewrite(self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let mut start = 0;
        for line in text.split(['\n', '\r']) {
            let end = start + line.len();
            rewrite_blanks(&mut bytes[start..end]);
            rewrite_labels(line, &mut bytes[start..end]);
            // In code and HTML, the parser does not end a line at a single CR.
            if text[end..].starts_with('\r') && !text[end..].starts_with("\r\n") {
                bytes[end] = b'\n';
            }
            start = end + 1;
        }
        for (at, _) in text.match_indices('<') {
            self.rewrite_tag(&mut bytes[at + 1..]);
        }
        if self == Self::GitHubLinks {
            rewrite_links(&mut bytes);
        }
        // This loses nothing, because only ASCII was replaced, with ASCII.
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns whether [`lazy::begin_blocks`] applies.
    pub(super) fn begins_lazy_blocks(self) -> bool {
        self != Self::Newer
    }

    /// Rewrites one tag. `html` starts after its `<`.
    fn rewrite_tag(self, html: &mut [u8]) {
        // GitHub begins a declaration only with an upper-case letter.
        if self != Self::Newer
            && let [b'!', letter @ b'a'..=b'z', ..] = html
        {
            *letter = b'1';
            return;
        }
        let is_end = html.first() == Some(&b'/');
        let html = &mut html[usize::from(is_end)..];
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        let length = html.iter().position(|byte| !is_of_name(byte));
        let (name, after) = html.split_at_mut(length.unwrap_or(html.len()));
        let is_closed = after.starts_with(b"/>");
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let is_raw = RAW.into_iter().any(is) || self == Self::Newer && is(b"textarea");
        let new: &[u8] = match after.first_mut() {
            // The parser accepts no blank before the `>`, so it moves with the shorter name.
            Some(close @ b'>') if is_raw && is_end && name.len() > ONE_RAW.len() => {
                *close = b' ';
                b"pre>"
            }
            Some(b'>') if is_raw && is_end => ONE_RAW,
            None | Some(b'\t'..=b'\r' | b' ' | b'>') if is_raw && !is_end => ONE_RAW,
            // Another name that begins the same blocks.
            None | Some(b'\t'..=b'\r' | b' ' | b'/' | b'>')
                if name == lazy::LAZY_IMAGE.as_bytes() =>
            {
                b"div"
            }
            // The parser agrees with the newer renderers.
            _ if self == Self::Newer => return,
            // Not a tag, for example the address in `[a](<source.md>)`.
            Some(other) if !other.is_ascii_whitespace() && *other != b'>' && !is_closed => return,
            _ if is(b"source") => b"search",
            _ if is(b"search") => b"source",
            // Any name of this length that begins no block.
            _ if is(b"textarea") => b"text-box",
            _ => return,
        };
        name.fill(b' ');
        name[..new.len()].copy_from_slice(new);
    }
}

/// Replaces tabs and similar blanks in lines that the parser recognizes only with spaces: the end
/// of a code block, and the delimiter row of a table.
fn rewrite_blanks(line: &mut [u8]) {
    let text = line.trim_ascii_end();
    if text.ends_with(b"```") || text.ends_with(b"~~~") {
        let end = text.len();
        replace(&mut line[end..], b"\t");
    }
    if line.iter().all(|byte| b"|-:> \t\x0b\x0c".contains(byte)) {
        // Keep the indentation of the table, and of the list item that it is in.
        let is_table = |pair: &[u8]| pair == b"--" || pair[0] == b'|' || pair[0] == b':';
        let start = line.windows(2).position(is_table).unwrap_or(line.len());
        replace(&mut line[start..], b"\t\x0b\x0c");
    }
}

/// Rewrites the labels at the start of a line, after the marks of quotes and lists. In the label
/// of a footnote, only the parser refuses `[`, treats `\` as an escape, and accepts blanks.
fn rewrite_labels(text: &str, line: &mut [u8]) {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(BLANKS);
        let Some(label) = rest.strip_prefix("[^") else {
            match after_mark(rest) {
                Some(after) => rest = after,
                None => return,
            }
            continue;
        };
        let Some((label, after)) = label.split_once("]:") else {
            return;
        };
        let start = text.len() - rest.len() + 2;
        if label.contains(']') {
            return;
        }
        if label.contains([' ', '\t']) {
            // GitHub reads a link definition.
            line[start - 1] = ODD;
            return;
        }
        for byte in &mut line[start..start + label.len()] {
            match byte {
                b'[' => *byte = ODD,
                b'\\' => *byte = ODD_ESCAPE,
                _ => {}
            }
        }
        rest = after;
    }
}

/// Rewrites what GitHub reads differently in links and their definitions: it accepts an address with
/// a `(` that is not closed if a blank follows, and ends a title at a quotation mark or bracket
/// after a `\` if the line ends there or, after a quotation mark, if a `)` follows.
fn rewrite_links(text: &mut [u8]) {
    let mut open = Vec::new();
    let mut is_address = false;
    for at in 1..text.len() {
        match text[at] {
            b'(' | b':' if !is_address && text[at - 1] == b']' => is_address = true,
            b'(' if is_address => open.push(at),
            b')' if is_address => is_address = open.pop().is_some(),
            byte if byte.is_ascii_whitespace() => {
                // Blanks may come before an address.
                is_address &= text[at - 1].is_ascii_whitespace() || b"(:".contains(&text[at - 1]);
                for at in open.drain(..) {
                    text[at] = b'_';
                }
            }
            b'"' | b'\'' | b')' if text[at - 1] == b'\\' => {
                let rest = text[at + 1..].trim_ascii_start();
                let line = text[at + 1..]
                    .iter()
                    .position(|byte| !b" \t".contains(byte));
                let ends_line = line.is_none_or(|line| b"\r\n".contains(&text[at + 1 + line]));
                if ends_line || text[at] != b')' && rest.first() == Some(&b')') {
                    text[at - 1] = ODD_ESCAPE;
                }
            }
            _ => {}
        }
    }
}

/// Replaces these bytes with spaces.
fn replace(text: &mut [u8], these: &[u8]) {
    for byte in text {
        if these.contains(byte) {
            *byte = b' ';
        }
    }
}
