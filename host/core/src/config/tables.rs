//! The typed reader of a configuration's tables, with which each layer reads its own settings.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, ValueDeserializer};

use super::ConfiguredPath;
use super::keys::Keys;
use super::limits;
use super::source::{ConfigSource, Reach, beyond_reach, is_within, table_in};
use skillhost_sandbox::tool::limits::LimitSet;

/// The tables of a configuration. Unknown keys were refused before, except for
/// [`read_table`](super::read_table).
pub struct Tables<'a> {
    pub(super) source: ConfigSource<'a>,
    pub(super) root: DeTable<'a>,
}

impl<'a> Tables<'a> {
    /// Parses a text. Refuses unknown keys.
    pub(super) fn parse(source: ConfigSource<'a>, keys: &Keys) -> anyhow::Result<Self> {
        let tables = Self::parse_unchecked(source)?;
        keys.check(&tables.root, &tables.source)?;
        Ok(tables)
    }

    /// Parses a text. Allows unknown keys.
    pub(super) fn parse_unchecked(source: ConfigSource<'a>) -> anyhow::Result<Self> {
        let root = DeTable::parse(source.text);
        let root = root.map_err(|error| source.error(&error))?.into_inner();
        Ok(Self { source, root })
    }

    /// Returns the place of a byte offset, for messages: "`skillhost.toml`, line 3".
    pub fn place(&self, at: usize) -> String {
        self.source.place(at)
    }

    /// Returns a path with its place. A relative path starts at the configuration's folder.
    ///
    /// # Errors
    ///
    /// Fails if the path leads out of the folder of a configuration that was found and not named
    /// with `--config`.
    pub fn path(&self, path: Spanned<PathBuf>) -> anyhow::Result<ConfiguredPath> {
        let place = self.place(path.span().start);
        self.path_at(path.into_inner(), place)
    }

    /// Returns a path with its place, also if it leads out of the folder of a configuration that was
    /// found. Only for files of which no message shows the content.
    pub fn path_anywhere(&self, path: Spanned<PathBuf>) -> ConfiguredPath {
        ConfiguredPath {
            place: self.place(path.span().start),
            path: self.source.folder.join(path.into_inner()),
        }
    }

    /// Returns a path that may be missing. Fails as [`Tables::path`] does.
    pub fn optional_path(
        &self,
        path: Option<Spanned<PathBuf>>,
    ) -> anyhow::Result<Option<ConfiguredPath>> {
        path.map(|path| self.path(path)).transpose()
    }

    /// Returns a path with its place. Fails as [`Tables::path`] does.
    pub(super) fn path_at(&self, path: PathBuf, place: String) -> anyhow::Result<ConfiguredPath> {
        let path = self.source.folder.join(path);
        if self.source.reach == Reach::OwnFolder && !is_within(&path, self.source.folder) {
            let subject = format!("`{}`", path.display());
            anyhow::bail!("{place}: {}", beyond_reach(&subject));
        }
        Ok(ConfiguredPath { path, place })
    }

    /// Returns the value of a top-level key, or the default if the key is missing.
    ///
    /// # Errors
    ///
    /// Fails if the value is not a `T`.
    pub fn table<T: DeserializeOwned + Default>(&self, key: &str) -> anyhow::Result<T> {
        let Some(value) = self.root.get(key) else {
            return Ok(T::default());
        };
        let value = T::deserialize(ValueDeserializer::from(value.clone()));
        value.map_err(|error| self.source.error(&error))
    }

    /// Returns a set of limits. A limit that the configuration does not set has its default.
    ///
    /// # Errors
    ///
    /// Fails if a value is not a quantity of the limit's unit, or is out of bounds.
    pub fn limits<S: LimitSet>(&self) -> anyhow::Result<S> {
        let table = match S::KEY {
            "" => Some(&self.root),
            key => table_in(&self.root, key),
        };
        self.limits_in(table)
    }

    /// Returns the limits in a named table, such as `[clients.NAME]`.
    ///
    /// # Errors
    ///
    /// Fails as [`Tables::limits`] does.
    pub fn named_limits<S: LimitSet>(&self, tables: &str, name: &str) -> anyhow::Result<S> {
        let tables = table_in(&self.root, tables);
        self.limits_in(tables.and_then(|tables| table_in(tables, name)))
    }

    fn limits_in<S: LimitSet>(&self, table: Option<&DeTable<'_>>) -> anyhow::Result<S> {
        match table {
            Some(table) => limits::read(table, S::default(), &self.source),
            None => Ok(S::default()),
        }
    }
}
