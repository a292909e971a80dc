//! Rewrites a Markdown text so that the parser divides it into the blocks that renderers show.
//!
//! The parser begins and ends some blocks at other lines than GitHub, markdown-it and the
//! specification. What is a comment on a page would be code for the parser, or the other way round.

/// A family of renderers that agree about the tags that begin a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Renderer {
    /// GitHub, with version 0.29 of the specification.
    GitHub,
    /// Renderers with version 0.31, such as markdown-it.
    Newer,
}

/// The tags whose blocks end at an end tag instead of a blank line. Renderers end such a block at
/// the end tag of any of them, and the parser only at the block's own in lower case.
const RAW: [&[u8]; 3] = [b"script", b"style", b"pre"];

/// The tag that the parser reads in place of all [`RAW`] ones: the shortest.
const ONE_RAW: &[u8] = b"pre";

/// A character in place of one that the parser reads otherwise. No label with it is shown.
pub(super) const ODD: u8 = 1;

impl Renderer {
    /// Returns a text with the same length as `text`. The parser divides it into blocks at the
    /// lines at which this renderer divides `text`.
    pub(super) fn rewrite(self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for at in 0..bytes.len() {
            // In code and HTML, the parser does not end a line at a single CR.
            if bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n') {
                bytes[at] = b'\n';
            }
        }
        for line in bytes.split_mut(|byte| *byte == b'\n') {
            rewrite_blanks(line);
            rewrite_footnotes(line);
        }
        for (at, _) in text.match_indices('<') {
            self.rewrite_tag(&mut bytes[at + 1..]);
        }
        // ASCII replaced ASCII.
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Rewrites the tag whose name, or `/` and name, `html` starts with.
    fn rewrite_tag(self, html: &mut [u8]) {
        let is_end = html.first() == Some(&b'/');
        let html = &mut html[usize::from(is_end)..];
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        let length = html.iter().position(|byte| !is_of_name(byte));
        let (name, after) = html.split_at_mut(length.unwrap_or(html.len()));
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let is_raw = RAW.into_iter().any(is) || self == Self::Newer && is(b"textarea");
        let new: &[u8] = match after.first_mut() {
            // The `>` comes directly after the new name.
            Some(close @ b'>') if is_raw && is_end && name.len() > ONE_RAW.len() => {
                *close = b' ';
                b"pre>"
            }
            Some(b'>') if is_raw && is_end => ONE_RAW,
            None | Some(b'\t'..=b'\r' | b' ' | b'>') if is_raw && !is_end => ONE_RAW,
            // The parser agrees with the newer renderers.
            _ if self == Self::Newer => return,
            _ if is(b"source") => b"search",
            _ if is(b"search") => b"source",
            // Any name that begins no block.
            _ if is(b"textarea") => b"text-box",
            _ => return,
        };
        name.fill(b' ');
        name[..new.len()].copy_from_slice(new);
    }
}

/// Replaces blanks at which the parser does not recognize the end of a code block or the second
/// line of a table.
fn rewrite_blanks(line: &mut [u8]) {
    let line = match line {
        [line @ .., b'\r'] => line,
        line => line,
    };
    let text = line.trim_ascii_end();
    if text.ends_with(b"```") || text.ends_with(b"~~~") {
        let end = text.len();
        replace(&mut line[end..], b"\t");
    }
    let is_second = |byte: &u8| b"|-:> \t\x0b\x0c".contains(byte);
    if line.contains(&b'-') && line.iter().all(is_second) {
        // Blanks before it are the indentation of the table, or of an item of a list.
        let start = line
            .windows(2)
            .position(|pair| pair == b"--" || pair[0] == b'|' || pair[0] == b':');
        let start = start.unwrap_or(line.len());
        replace(&mut line[start..], b"\t\x0b\x0c");
    }
}

/// Rewrites labels after the marks of blocks at the start of a line. In a footnote's label, only
/// the parser refuses `[`, escapes characters, and allows blanks.
fn rewrite_footnotes(mut line: &mut [u8]) {
    loop {
        let start = line.iter().position(|byte| !b" \t\x0b\x0c>".contains(byte));
        line = &mut line[start.unwrap_or_default()..];
        let Some(label) = line.strip_prefix(b"[^") else {
            let is_mark = |byte: &u8| byte.is_ascii_digit() || b"-+*.)".contains(byte);
            let end = line.iter().position(|byte| !is_mark(byte)).unwrap_or(0);
            if end == 0 || !b" \t".contains(&line[end]) {
                return;
            }
            line = &mut line[end..];
            continue;
        };
        let length = label.iter().position(|byte| *byte == b']');
        let Some(end) = length.map(|length| 2 + length) else {
            return;
        };
        if line.get(end + 1) != Some(&b':') {
            return;
        }
        if line[2..end].contains(&b' ') || line[2..end].contains(&b'\t') {
            // A link definition.
            line[1] = ODD;
            return;
        }
        for byte in &mut line[2..end] {
            if b"[\\".contains(byte) {
                *byte = ODD;
            }
        }
        line = &mut line[end + 2..];
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
