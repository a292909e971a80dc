//! The known keys of a configuration, and those that reach beyond the configuration's own
//! folder. The tables of limits and the structs for serde define the keys.

use anyhow::bail;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use toml::de::{DeTable, DeValue};

use super::audit::{self, CheckpointLimits, RawAuditTable};
use super::clients::{ClientLimits, RawClient};
use super::grants::RawGrant;
use super::http::{HttpLimits, RawHttp};
use super::issuers::RawIssuer;
use super::process::RawProcess;
use super::prompt::{PromptLimits, RawSearch};
use super::raw::RawConfig;
use super::source::{ConfigSource, Reach, beyond, kind};
use super::stdio::StdioLimits;
use skillhost_sandbox::tool::limits::{CompileLimits, LimitSet, Limits, Load};
use skillhost_skills::text::suggest;

/// Stands for any name chosen by the operator.
const ANY: &str = "*";

/// Keys with effects beyond the folder of the configuration.
pub(super) const REACHING: [&str; 9] = [
    "home",
    "audit",
    "audit_file",
    "http",
    "clients",
    "issuers",
    "hard_links",
    "process",
    "grants.*.hard_links",
];

/// Returns the keys of a table. Returns `None` if there is no such table.
pub(super) fn of_table(table: &str) -> Option<Vec<&'static str>> {
    let keys = match table {
        "" => vec![
            fields::<RawConfig>(),
            rows::<Load>(),
            rows::<CompileLimits>(),
        ],
        "http" => vec![fields::<RawHttp>(), rows::<HttpLimits>()],
        audit::KEY => vec![fields::<RawAuditTable>(), rows::<CheckpointLimits>()],
        "issuers.*" => vec![fields::<RawIssuer>()],
        "clients.*" => vec![fields::<RawClient>(), rows::<ClientLimits>()],
        "prompt" => vec![rows::<PromptLimits>()],
        "stdio" => vec![rows::<StdioLimits>()],
        "process" => vec![fields::<RawProcess>()],
        "search" => vec![fields::<RawSearch>()],
        "grants.*" => vec![fields::<RawGrant>()],
        "limits" | "grants.*.limits" => vec![rows::<Limits>()],
        "clients"
        | "clients.*.claims"
        | "issuers"
        | "grants"
        | "grants.*.environment"
        | "pins"
        | "descriptions" => vec![vec![ANY]],
        _ => return None,
    };
    Some(keys.concat())
}

/// Returns the keys of a set of limits.
fn rows<S: LimitSet>() -> Vec<&'static str> {
    S::TABLE.iter().map(|row| row.key).collect()
}

/// Returns the names of a struct's fields in serde.
fn fields<T: DeserializeOwned>() -> Vec<&'static str> {
    let mut names = FieldNames(&[]);
    // Fails as soon as it has the names of the fields.
    let _ = T::deserialize(&mut names);
    names.0.to_vec()
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

/// Refuses unknown keys: a misspelt limit would not limit anything.
pub(super) fn check(table: &DeTable<'_>, source: &ConfigSource<'_>) -> anyhow::Result<()> {
    check_table(table, "", "", source)
}

/// Checks the keys of a table. `within` is its name with `*` for names chosen by the
/// operator, `shown` its name in messages.
fn check_table(
    table: &DeTable<'_>,
    within: &str,
    shown: &str,
    source: &ConfigSource<'_>,
) -> anyhow::Result<()> {
    let Some(known) = of_table(within) else {
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
                below(shown, name).escape_debug()
            );
        }
        let (within, shown) = (below(within, entry), below(shown, name));
        if source.reach == Reach::OwnFolder && REACHING.contains(&&*within) {
            bail!(
                "{}: {}",
                place(),
                beyond(&format!("`{}`", shown.escape_debug()))
            );
        }
        match value.get_ref() {
            DeValue::Table(inner) => check_table(inner, &within, &shown, source)?,
            // The only key that is either a string or a table.
            DeValue::String(_) if within == audit::KEY => {}
            other if of_table(&within).is_some() => bail!(
                "{}: `{}` is a table, not {}",
                place_of_value(),
                shown.escape_debug(),
                kind(other)
            ),
            DeValue::Array(roots) if within == "skills" => {
                // serde would read the values as the fields of a folder.
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

fn below(table: &str, key: &str) -> String {
    match table {
        "" => key.to_owned(),
        table => format!("{table}.{key}"),
    }
}
