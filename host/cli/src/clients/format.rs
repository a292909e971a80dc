//! Edits clients' configurations in their formats. An *entry* is the value that describes one MCP
//! server. An edit sets or removes one entry, and changes nothing else.
//!
//! Each edited text is parsed again. If anything but the entry has changed, the edit is refused.

mod json;
mod toml;
mod yaml;

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// The format of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON without comments
    Json,
    /// JSON that may have comments and trailing commas
    JsonWithComments,
    /// TOML
    Toml,
    /// YAML
    Yaml,
}

/// The two keys that lead to an entry.
#[derive(Clone, Copy)]
pub(super) struct EntryPath<'a> {
    /// The key of the object with all servers.
    pub(super) key: &'a str,
    /// The key of the entry in that object.
    pub(super) name: &'a str,
}

/// The character that some editors write at the start of a text file.
const BYTE_ORDER_MARK: char = '\u{feff}';

impl Format {
    /// Returns the format's name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json | Self::JsonWithComments => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }

    /// Returns the entry at a path.
    ///
    /// # Errors
    ///
    /// If the text is invalid. The error has the line and the column.
    pub(super) fn find(
        self,
        text: &str,
        entry_path: EntryPath<'_>,
    ) -> anyhow::Result<Option<Value>> {
        let mut content = self.read(text)?;
        take_entry(&mut content, entry_path)
    }

    /// Returns the text with the entry added or replaced.
    ///
    /// # Errors
    ///
    /// If the text is invalid, or anything but the entry would change.
    pub(super) fn set(
        self,
        text: &str,
        entry_path: EntryPath<'_>,
        entry: &Value,
    ) -> anyhow::Result<String> {
        self.edit(text, entry_path, Some(entry))
    }

    /// Returns the text without the entry at a path.
    ///
    /// # Errors
    ///
    /// If the text is invalid, or anything but the entry would change.
    pub(super) fn remove(self, text: &str, entry_path: EntryPath<'_>) -> anyhow::Result<String> {
        self.edit(text, entry_path, None)
    }

    fn edit(
        self,
        text: &str,
        entry_path: EntryPath<'_>,
        entry: Option<&Value>,
    ) -> anyhow::Result<String> {
        let before = self.read(text)?;
        // Fails if the servers are not in an object.
        take_entry(&mut before.clone(), entry_path)?;
        let (mark, body) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(body) => (&text[..BYTE_ORDER_MARK.len_utf8()], body),
            None => ("", text),
        };
        let edited = match self {
            Self::Json | Self::JsonWithComments => json::edit(body, entry_path, entry),
            Self::Toml => toml::edit(body, entry_path, entry),
            Self::Yaml => yaml::edit(body, entry_path, entry),
        }?;
        let edited = mark.to_owned() + &edited;
        let after = self.read(&edited);
        after
            .and_then(|after| check(before, after, entry_path, entry))
            .context("its form is too unusual to edit safely; edit it by hand")?;
        Ok(edited)
    }

    /// Parses the text. An empty text is an empty object.
    fn read(self, text: &str) -> anyhow::Result<Value> {
        let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        match self {
            Self::Json => json::read(body, false),
            Self::JsonWithComments => json::read(body, true),
            Self::Toml => toml::read(body),
            Self::Yaml => yaml::read(body),
        }
        .with_context(|| format!("it is invalid {}", self.name()))
    }
}

/// Removes the entry at a path from the content, and returns it.
fn take_entry(content: &mut Value, entry_path: EntryPath<'_>) -> anyhow::Result<Option<Value>> {
    let settings = content
        .as_object_mut()
        .context("its top level is not an object")?;
    let servers = match settings.get_mut(entry_path.key) {
        None | Some(Value::Null) => return Ok(None),
        Some(servers) => servers.as_object_mut(),
    };
    let servers = servers.with_context(|| format!("its `{}` is not an object", entry_path.key))?;
    Ok(servers.shift_remove(entry_path.name))
}

/// Checks that an edit changed only the entry, and kept the order of everything else.
fn check(
    mut before: Value,
    mut after: Value,
    entry_path: EntryPath<'_>,
    entry: Option<&Value>,
) -> anyhow::Result<()> {
    take_entry(&mut before, entry_path)?;
    let found = take_entry(&mut after, entry_path)?;
    ensure!(
        found.as_ref() == entry,
        "the entry would not be as intended"
    );
    for content in [&mut before, &mut after] {
        // An edit may add an object for the servers, or leave an empty one.
        if let Some(settings) = content.as_object_mut()
            && let Some(servers) = settings.get(entry_path.key)
            && servers.as_object().is_none_or(|servers| servers.is_empty())
        {
            settings.shift_remove(entry_path.key);
        }
    }
    // Compare texts: equal objects may differ in the order of their keys.
    let [before, after] = [before, after].map(|content| content.to_string());
    ensure!(before == after, "a part other than the entry would change");
    Ok(())
}

/// Returns the line and column of an offset, both from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset.min(text.len()))];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests;
