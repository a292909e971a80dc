//! The source of a configuration: its text, the places in the text, and the configuration's reach.

use std::io;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::DEFAULT_FILE;

/// The reach of a configuration: the folders that it may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Any folder, because the operator named the file.
    Anywhere,
    /// Only the file's own folder, because the file was found there. Guards against: a
    /// configuration that came with a cloned repository.
    OwnFolder,
}

/// The text of a configuration, with its name and reach.
pub(super) struct ConfigSource<'a> {
    pub(super) text: &'a str,
    /// The file's name, for messages.
    pub(super) name: &'a str,
    /// The base of relative paths.
    pub(super) folder: &'a Path,
    pub(super) reach: Reach,
    /// The byte offsets of the line ends, so that the line of a value is found without counting the
    /// lines of the file.
    line_ends: Vec<usize>,
}

impl<'a> ConfigSource<'a> {
    pub(super) fn new(text: &'a str, name: &'a str, folder: &'a Path, reach: Reach) -> Self {
        let line_ends = text.bytes().enumerate();
        let line_ends = line_ends.filter(|(_, byte)| *byte == b'\n');
        Self {
            text,
            name,
            folder,
            reach,
            line_ends: line_ends.map(|(at, _)| at).collect(),
        }
    }

    /// Returns the place of a byte offset, for messages.
    pub(super) fn place(&self, at: usize) -> String {
        let line = self.line_ends.partition_point(|end| *end < at) + 1;
        format!("`{}`, line {line}", self.name)
    }

    /// Returns the message for a value that cannot be parsed.
    pub(super) fn error(&self, error: &toml::de::Error) -> anyhow::Error {
        let at = error.span().map_or(0, |span| span.start);
        anyhow::anyhow!("{}: {}", self.place(at), error.message())
    }
}

/// Returns a nested table.
pub(super) fn table_in<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    match table.get(key)?.get_ref() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }
}

/// Returns the message for a setting that leads out of the folder of a found configuration.
pub(super) fn beyond_reach(subject: &str) -> String {
    format!(
        "{subject} leads out of the folder of this configuration, which was found and was not \
         named with `--config`; `--config ./{DEFAULT_FILE}` allows it"
    )
}

/// Returns whether the target of a path is in a folder. Also returns true if the path or the folder
/// does not exist: using it fails later.
pub(super) fn is_within(path: &Path, folder: &Path) -> bool {
    match (path.canonicalize(), real_path(folder)) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => true,
    }
}

/// Returns the canonical path of a configuration's folder.
pub(super) fn real_path(folder: &Path) -> io::Result<PathBuf> {
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
    .canonicalize()
}

/// Returns the kind of a value with its article.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        // Not accepted as a table, although serde could read the items as the table's fields.
        DeValue::Array(_) => "a list",
        // Not accepted as a table, although the parser represents a date as a table with one key.
        DeValue::Datetime(_) => "a date",
        DeValue::String(_) => "a string",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Table(_) => "a table",
        DeValue::Float(_) => "a floating-point number",
        DeValue::Integer(_) => "a number",
    }
}
