//! Formats a listing for the model: a line for each file and for each folder that is not
//! opened. A name that could be read as other text is written as a JSON string.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};

use skillhost_guest::ReadError;

use crate::hidden::is_hidden;
use crate::listing::{self, EntryKind, ListedEntry, Listing};

/// Returns the text of a listing. `path` is the listed folder.
pub(crate) fn listing_text(path: &str, listing: &Listing) -> String {
    let mut text = String::new();
    let mut add_line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    let mut has_closed_folder = false;
    for entry in &listing.entries {
        if let Some(line) = entry_line(entry) {
            add_line(&line);
        }
        has_closed_folder |= matches!(
            entry.kind,
            EntryKind::Folder { is_opened: false, entries } if entries != Some(0)
        ) && !listing::is_hidden(&entry.path);
    }
    if listing.entries.is_empty() {
        add_line(&match listing.left_out {
            0 => format!("[{} has no more entries]", path_text(path)),
            _ => format!("[{} has no entries that can be read]", path_text(path)),
        });
    }
    if has_closed_folder {
        add_line("[folders with a count are not opened: give one as `path` to list it]");
    }
    if let Some(after) = &listing.after {
        add_line(&format!(
            "[{} more: call again with after={}]",
            listing.more,
            quoted(after)
        ));
    }
    if listing.left_out > 0 {
        add_line(&format!(
            "[{} left out: no call can name them]",
            listing.left_out
        ));
    }
    text.pop();
    text
}

/// Returns the line of an entry, or `None` for an opened folder: its entries have lines.
fn entry_line(ListedEntry { path, kind }: &ListedEntry) -> Option<String> {
    let line = match kind {
        EntryKind::File { size, description } => {
            let size = size_text(*size);
            match description {
                Some(description) => format!("{}  {size}  {description}", path_text(path)),
                None => format!("{}  {size}", path_text(path)),
            }
        }
        EntryKind::Folder { entries, is_opened } => {
            let folder = format!("{path}/");
            let folder = path_text(&folder);
            match entries {
                Some(0) => format!("{folder}  empty"),
                Some(_) if *is_opened => return None,
                Some(1) => format!("{folder}  1 entry"),
                Some(entries) => format!("{folder}  {entries} entries"),
                None => format!("{folder}  many entries"),
            }
        }
        EntryKind::Unreadable(error) => {
            let reason =
                reason(*error).map_or_else(|| Cow::Owned(error.to_string()), Cow::Borrowed);
            format!("{}  cannot be read: {reason}", path_text(path))
        }
    };
    Some(line)
}

/// Returns the reason why a symlink cannot be read, if the error's message speaks of a call's
/// path instead. Otherwise returns `None`: the message fits any entry.
pub(crate) fn reason(error: ReadError) -> Option<&'static str> {
    match error {
        ReadError::Outside => Some("leads out of the skill"),
        ReadError::NotFound => Some("leads to nothing"),
        _ => None,
    }
}

/// Returns a path unchanged, or as a JSON string if it could be read as other text.
fn path_text(path: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !(c.is_whitespace() || c == '"' || is_hidden(c));
    if path.chars().all(is_plain) && !path.starts_with('[') {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(quoted(path))
    }
}

/// Returns a JSON string in which every character is visible.
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

/// Returns a size with a unit, rounded to about three digits.
fn size_text(size: u64) -> String {
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
