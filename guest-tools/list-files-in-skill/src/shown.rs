//! The listing as the model reads it: a line for each file, and for each folder
//! that is not opened. A name that could pass for more is a JSON string.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};

use skillhost_guest::ReadError;

use crate::hidden::is_hidden;
use crate::listing::{self, Found, Kind, Listing};

/// Writes the listing of a folder.
pub(crate) fn text(path: &str, listing: &Listing) -> String {
    let mut text = String::new();
    let mut line = |words: &str| {
        text.push_str(words);
        text.push('\n');
    };
    let mut closed = false;
    for found in &listing.found {
        if let Some(words) = entry(found) {
            line(&words);
        }
        closed |= matches!(
            found.kind,
            Kind::Folder { opened: false, entries } if entries != Some(0)
        ) && !listing::is_hidden(&found.path);
    }
    if listing.found.is_empty() {
        line(&match listing.left_out {
            0 => format!("[{} holds nothing more]", name(path)),
            _ => format!("[{} holds nothing that can be read]", name(path)),
        });
    }
    if closed {
        line("[folders with a count are not opened: give one as `path` to list it]");
    }
    if let Some(after) = &listing.after {
        line(&format!(
            "[{} more: call again with after={}]",
            listing.more,
            quoted(after)
        ));
    }
    if listing.left_out > 0 {
        line(&format!(
            "[{} more with names that no call can give]",
            listing.left_out
        ));
    }
    text.pop();
    text
}

/// The line of an entry. None: the lines of what is in it say that it is there.
fn entry(Found { path, kind }: &Found) -> Option<String> {
    let words = match kind {
        Kind::File { size, description } => {
            let size = bytes(*size);
            match description {
                Some(words) => format!("{}  {size}  {words}", name(path)),
                None => format!("{}  {size}", name(path)),
            }
        }
        Kind::Folder { entries, opened } => {
            let folder = format!("{path}/");
            let folder = name(&folder);
            match entries {
                Some(0) => format!("{folder}  empty"),
                Some(_) if *opened => return None,
                Some(1) => format!("{folder}  1 entry"),
                Some(entries) => format!("{folder}  {entries} entries"),
                None => format!("{folder}  many entries"),
            }
        }
        Kind::Unreadable(error) => {
            let why = reason(*error).map_or_else(|| Cow::Owned(error.to_string()), Cow::Borrowed);
            format!("{}  cannot be read: {why}", name(path))
        }
    };
    Some(words)
}

/// Returns the reason why an entry cannot be read, if the error's own message is about a call.
pub(crate) fn reason(error: ReadError) -> Option<&'static str> {
    match error {
        ReadError::Outside => Some("leads out of the skill"),
        ReadError::NotFound => Some("leads to nothing"),
        _ => None,
    }
}

/// A path as it is, or as a JSON string where it would not stand for itself.
fn name(path: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !(c.is_whitespace() || c == '"' || is_hidden(c));
    if path.chars().all(is_plain) && !path.starts_with('[') {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(quoted(path))
    }
}

/// A JSON string in which every character can be seen.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if is_hidden(c) || (c.is_whitespace() && c != ' ') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    quoted.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A size in three digits or so.
fn bytes(size: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    let scaled = |unit: u64, name: &str| {
        let tenths = (u128::from(size) * 10 + u128::from(unit) / 2) / u128::from(unit);
        match tenths {
            0..100 => format!("{}.{} {name}", tenths / 10, tenths % 10),
            _ => format!("{} {name}", tenths / 10),
        }
    };
    match size {
        0..KIB => format!("{size} B"),
        KIB..MIB => scaled(KIB, "KB"),
        _ => scaled(MIB, "MB"),
    }
}
