//! The formats of clients' configurations: finds, sets and removes one entry, and changes nothing
//! else.
//!
//! Each edit is read again. If anything but the entry would change, it is refused.

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

/// The place of an entry: the key of the object with all servers, and the key in it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) key: &'a str,
    pub(super) name: &'a str,
}

/// The start of a text file that some editors write.
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

    /// Returns the entry at a place.
    ///
    /// # Errors
    ///
    /// If the text is invalid, with the line and column.
    pub(super) fn find(self, text: &str, place: Place<'_>) -> anyhow::Result<Option<Value>> {
        let mut whole = self.read(text)?;
        take(&mut whole, place)
    }

    /// Returns the text with an entry, which replaces the one at its place.
    ///
    /// # Errors
    ///
    /// If the text is invalid, or another part would change.
    pub(super) fn set(self, text: &str, place: Place<'_>, entry: &Value) -> anyhow::Result<String> {
        self.edit(text, place, Some(entry))
    }

    /// Returns the text without the entry at a place.
    ///
    /// # Errors
    ///
    /// If the text is invalid, or another part would change.
    pub(super) fn remove(self, text: &str, place: Place<'_>) -> anyhow::Result<String> {
        self.edit(text, place, None)
    }

    fn edit(self, text: &str, place: Place<'_>, entry: Option<&Value>) -> anyhow::Result<String> {
        let before = self.read(text)?;
        take(&mut before.clone(), place)?;
        let (mark, body) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(body) => (&text[..BYTE_ORDER_MARK.len_utf8()], body),
            None => ("", text),
        };
        let edited = match self {
            Self::Json | Self::JsonWithComments => json::edit(body, place, entry),
            Self::Toml => toml::edit(body, place, entry),
            Self::Yaml => yaml::edit(body, place, entry),
        }?;
        let edited = mark.to_owned() + &edited;
        let after = self.read(&edited);
        after
            .and_then(|after| check(before, after, place, entry))
            .context("its form is too unusual to change safely; edit it by hand")?;
        Ok(edited)
    }

    /// Returns the whole content. An empty text is an empty object.
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

/// Takes the entry at a place out of the content.
fn take(whole: &mut Value, place: Place<'_>) -> anyhow::Result<Option<Value>> {
    let whole = whole.as_object_mut();
    let whole = whole.context("it holds no object with settings")?;
    let servers = match whole.get_mut(place.key) {
        None | Some(Value::Null) => return Ok(None),
        Some(servers) => servers.as_object_mut(),
    };
    let servers = servers.with_context(|| format!("its `{}` is not an object", place.key))?;
    Ok(servers.shift_remove(place.name))
}

/// Checks that an edit changed the entry alone, and no order.
fn check(
    mut before: Value,
    mut after: Value,
    place: Place<'_>,
    entry: Option<&Value>,
) -> anyhow::Result<()> {
    take(&mut before, place)?;
    let found = take(&mut after, place)?;
    ensure!(found.as_ref() == entry, "the entry would not be read back");
    for whole in [&mut before, &mut after] {
        // An edit may add an object for the servers, or leave an empty one.
        if let Some(whole) = whole.as_object_mut()
            && let Some(servers) = whole.get(place.key)
            && servers.as_object().is_none_or(|servers| servers.is_empty())
        {
            whole.shift_remove(place.key);
        }
    }
    // As text: equal maps may differ in their order.
    let [before, after] = [before, after].map(|whole| whole.to_string());
    ensure!(before == after, "another part would change");
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
