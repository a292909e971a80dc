//! The source of a configuration: its text, the places in it, and how far it may
//! reach.

use std::io;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::DEFAULT_FILE;

/// The reach of a configuration: where its paths may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Anywhere: the operator named the file.
    Anywhere,
    /// Not beyond its own folder: the file was found there, and anybody may have
    /// put it there. Guards against: a cloned repository that brings a
    /// configuration.
    OwnFolder,
}

/// A configuration's text, with its name and its reach.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    /// The file's name, for messages.
    pub(super) name: &'a str,
    /// The folder that relative paths count from.
    pub(super) folder: &'a Path,
    pub(super) reach: Reach,
}

impl Source<'_> {
    /// Returns the place of a byte of the text, for messages.
    pub(super) fn place(&self, at: usize) -> String {
        let before = self.text.bytes().take(at);
        let line = before.filter(|byte| *byte == b'\n').count() + 1;
        format!("`{}`, line {line}", self.name)
    }
}

/// Returns a table within a table.
pub(super) fn table_in<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    match table.get(key)?.get_ref() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }
}

/// Returns why something in a configuration that was found, and not named, is
/// refused.
pub(super) fn beyond(what: &str) -> String {
    format!(
        "{what} reaches beyond the folder of this configuration, which nobody named; \
         `--config ./{DEFAULT_FILE}` allows it"
    )
}

/// Checks that a path leads to something beneath a folder. A path that leads
/// nowhere passes: it fails where it is used.
pub(super) fn lies_within(path: &Path, folder: &Path) -> bool {
    match (path.canonicalize(), real_path(folder)) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => true,
    }
}

/// Returns the path of a configuration's folder without symlinks.
pub(super) fn real_path(folder: &Path) -> io::Result<PathBuf> {
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
    .canonicalize()
}

/// Returns the kind of a value, with its article.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        // Its values would be taken for those of a table's keys, in an order that
        // nobody has written down.
        DeValue::Array(_) => "a list",
        // A table to the reader, of one key that it makes up.
        DeValue::Datetime(_) => "a date",
        DeValue::String(_) => "a string",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Table(_) => "a table",
        _ => "a number",
    }
}
