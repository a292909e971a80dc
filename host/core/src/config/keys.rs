//! The keys of a configuration: which there are, and which reach beyond the
//! configuration's own folder.

use anyhow::bail;
use toml::de::{DeTable, DeValue};

use super::Reach;
use crate::text::suggest;

/// The keys that a file may have, by table; `*` is a name of the operator's
/// choice. What is named here is a table, and nothing else.
const KEYS: [(&str, &[&str]); 8] = [
    (
        "",
        &[
            "skills",
            "tools",
            "home",
            "disabled_tools",
            "hard_links",
            "audit_file",
            "audit",
            "pins",
            "require_pins",
            "require_components",
            "compile_time",
            "calls",
            "queue",
            "calls_per_tool",
            "calls_memory",
            "stack",
            "limits",
            "grants",
            "http",
        ],
    ),
    ("http", super::http::KEYS),
    ("limits", LIMITS),
    ("grants", &["*"]),
    (
        "grants.*",
        &["skills", "home", "hard_links", "limits", "environment"],
    ),
    ("grants.*.environment", &["*"]),
    ("grants.*.limits", LIMITS),
    ("pins", &["*"]),
];

const LIMITS: &[&str] = &[
    "time",
    "memory",
    "output",
    "table_elements",
    "instances",
    "tables",
    "hostcall_fuel",
    "handles",
    "directory_entries",
    "log",
];

/// Keys that reach beyond the folder of the configuration: what they name, or
/// what they let in, may lie anywhere.
const REACHING: [&str; 6] = [
    "home",
    "audit",
    "audit_file",
    "http",
    "hard_links",
    "grants.*.hard_links",
];

/// Refuses a key that means nothing: a limit that is misspelt does not limit.
pub(super) fn check(
    table: &DeTable<'_>,
    reach: Reach,
    place: &impl Fn(usize) -> String,
) -> anyhow::Result<()> {
    check_table(table, "", "", reach, place)
}

/// `within` is the table's place in [`KEYS`], `shown` its name in messages.
fn check_table(
    table: &DeTable<'_>,
    within: &str,
    shown: &str,
    reach: Reach,
    place: &impl Fn(usize) -> String,
) -> anyhow::Result<()> {
    let Some((_, known)) = KEYS.iter().find(|(table, _)| *table == within) else {
        return Ok(());
    };
    for (key, value) in table {
        let name: &str = key.get_ref();
        let entry = if known.contains(&"*") { "*" } else { name };
        if !known.contains(&entry) {
            let nearest = suggest::nearest(name, known.iter().copied());
            let hint = match nearest.first() {
                Some(nearest) => format!("; did you mean `{nearest}`?"),
                None => format!("; the keys here are {}", known.join(", ")),
            };
            bail!(
                "{}: unknown key `{}`{hint}",
                place(key.span().start),
                below(shown, name).escape_debug()
            );
        }
        let (within, shown) = (below(within, entry), below(shown, name));
        if reach == Reach::OwnFolder && REACHING.contains(&&*within) {
            bail!(
                "{}: {}",
                place(key.span().start),
                beyond(&format!("`{}`", shown.escape_debug()))
            );
        }
        match value.get_ref() {
            DeValue::Table(inner) => check_table(inner, &within, &shown, reach, place)?,
            _ if KEYS.iter().any(|(table, _)| *table == within) => bail!(
                "{}: `{}` is a table, not {}",
                place(value.span().start),
                shown.escape_debug(),
                kind(value.get_ref())
            ),
            DeValue::Array(roots) if within == "skills" => {
                // Its values would be taken for those of the keys of a folder.
                let list = roots.iter().find(|root| root.get_ref().is_array());
                if let Some(list) = list {
                    bail!(
                        "{}: `skills` has folders in it, not a list",
                        place(list.span().start)
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Why something of a configuration that was found, and not named, is refused.
pub(super) fn beyond(what: &str) -> String {
    format!(
        "{what} reaches beyond the folder of this configuration, which nobody named; \
         `--config ./{}` allows it",
        super::DEFAULT_FILE
    )
}

/// What a value is, which is not a table.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        // What stands in a list would be taken for the values of the table's
        // keys, in an order that nobody has written down.
        DeValue::Array(_) => "a list",
        // A table to the reader, of one key that it makes up.
        DeValue::Datetime(_) => "a date",
        DeValue::String(_) => "a string",
        DeValue::Boolean(_) => "a boolean",
        _ => "a number",
    }
}

fn below(table: &str, key: &str) -> String {
    match table {
        "" => key.to_owned(),
        table => format!("{table}.{key}"),
    }
}
