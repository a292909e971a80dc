//! The known keys of a configuration, and the keys with effects beyond the configuration's folder.
//! The keys are declared by the structs for serde and by the tables of limits.

use std::collections::BTreeMap;

use anyhow::bail;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use toml::de::{DeTable, DeValue};

use super::source::{ConfigSource, Reach, beyond_reach, kind};
use skillhost_sandbox::tool::limits::LimitSet;
use skillhost_skills::text::suggest;

/// A placeholder for any name that the operator chooses.
const ANY: &str = "*";

/// The only key that is either a string or a table.
pub(super) const AUDIT: &str = "audit";

/// Keys with effects beyond the folder of the configuration.
pub(super) const KEYS_BEYOND_FOLDER: [&str; 13] = [
    "home",
    "audit",
    "audit_file",
    "http",
    "clients",
    "issuers",
    "hard_links",
    "process",
    "grants.*.hard_links",
    "grants.*.network",
    "grants.*.network_private",
    "grants.*.secrets",
    "network",
];

/// The known keys of a configuration, by table. In the name of a table such as `clients.*`, `*`
/// stands for a name that the operator chooses.
#[derive(Debug, Clone, Default)]
pub struct Keys(BTreeMap<&'static str, Vec<&'static str>>);

impl Keys {
    /// Adds a table whose keys are the fields of a struct.
    pub fn fields<T: DeserializeOwned>(&mut self, table: &'static str) {
        let mut names = FieldNames(&[]);
        // `FieldNames` always fails, after it has recorded the names.
        let _ = T::deserialize(&mut names);
        self.add(table, names.0.iter().copied());
    }

    /// Adds a set of limits to its table.
    pub fn limits<S: LimitSet>(&mut self) {
        self.limits_in::<S>(S::KEY);
    }

    /// Adds a set of limits to a table.
    pub(super) fn limits_in<S: LimitSet>(&mut self, table: &'static str) {
        self.add(table, S::TABLE.iter().map(|row| row.key));
    }

    /// Adds a table whose keys are names that the operator chooses.
    pub fn names(&mut self, table: &'static str) {
        self.add(table, [ANY]);
    }

    /// Returns the keys of a table. Returns `None` if these settings have no such table.
    pub fn of_table(&self, table: &str) -> Option<&[&'static str]> {
        self.0.get(table).map(Vec::as_slice)
    }

    /// Returns all tables with their keys. The name of the top level is empty.
    pub fn tables(&self) -> impl Iterator<Item = (&'static str, &[&'static str])> {
        self.0.iter().map(|(table, keys)| (*table, keys.as_slice()))
    }

    /// Adds keys to a table, and the table to its parent.
    fn add(&mut self, table: &'static str, keys: impl IntoIterator<Item = &'static str>) {
        if !table.is_empty() {
            let (outer, key) = table.rsplit_once('.').unwrap_or(("", table));
            self.add(outer, [key]);
        }
        let known = self.0.entry(table).or_default();
        for key in keys {
            if !known.contains(&key) {
                known.push(key);
            }
        }
    }

    /// Refuses unknown keys: a misspelt limit would not limit anything.
    pub(super) fn check(
        &self,
        table: &DeTable<'_>,
        source: &ConfigSource<'_>,
    ) -> anyhow::Result<()> {
        self.check_table(table, "", "", source)
    }

    /// Checks the keys of a table. `within` is the table's name, with `*` for names that the
    /// operator chooses. `shown` is the table's name in messages.
    fn check_table(
        &self,
        table: &DeTable<'_>,
        within: &str,
        shown: &str,
        source: &ConfigSource<'_>,
    ) -> anyhow::Result<()> {
        let Some(known) = self.of_table(within) else {
            return Ok(());
        };
        for (key, value) in table {
            let name: &str = key.get_ref();
            let entry = if known.contains(&ANY) { ANY } else { name };
            let place = || source.place(key.span().start);
            let place_of_value = || source.place(value.span().start);
            if !known.contains(&entry) {
                let nearest = suggest::nearest(name, known.iter().copied());
                let hint = match nearest.first() {
                    // A dot outside of quotes starts a nested table.
                    _ if (within, name) == ("grants.*", "wasm") => {
                        format!(
                            "; put the file's name in quotes: `[grants.\"{}.wasm\"]`",
                            shown.trim_start_matches("grants.").escape_debug()
                        )
                    }
                    Some(nearest) => format!("; did you mean `{nearest}`?"),
                    None => format!("; the keys here are {}", known.join(", ")),
                };
                bail!(
                    "{}: unknown key `{}`{hint}",
                    place(),
                    qualified(shown, name).escape_debug()
                );
            }
            let (within, shown) = (qualified(within, entry), qualified(shown, name));
            if source.reach == Reach::OwnFolder && KEYS_BEYOND_FOLDER.contains(&&*within) {
                bail!(
                    "{}: {}",
                    place(),
                    beyond_reach(&format!("`{}`", shown.escape_debug()))
                );
            }
            match value.get_ref() {
                DeValue::Table(inner) => self.check_table(inner, &within, &shown, source)?,
                DeValue::String(_) if within == AUDIT => {}
                other if self.of_table(&within).is_some() => bail!(
                    "{}: `{}` is a table, not {}",
                    place_of_value(),
                    shown.escape_debug(),
                    kind(other)
                ),
                DeValue::Array(roots) if within == "skills" => {
                    // serde would read a nested list as the fields of a folder's table.
                    let list = roots.iter().find(|root| root.get_ref().is_array());
                    if let Some(list) = list {
                        bail!(
                            "{}: `skills` must be a list of folders, not of lists",
                            source.place(list.span().start)
                        );
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A deserializer that only records the fields of a struct.
struct FieldNames(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut FieldNames {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("it has no fields"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Returns a key with the name of its table, such as `grants.limits`.
fn qualified(table: &str, key: &str) -> String {
    match table {
        "" => key.to_owned(),
        table => format!("{table}.{key}"),
    }
}
