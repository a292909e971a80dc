//! TOML. `toml_edit` keeps comments and order.

use anyhow::{Context as _, anyhow};
use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::EntryPath;

/// Parses the text.
pub(super) fn read(text: &str) -> anyhow::Result<Value> {
    toml::from_str::<Map<String, Value>>(text)
        .map(Value::Object)
        .map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let (line, column) = super::position(text, start);
            let why = error.message().lines().collect::<Vec<_>>().join(", ");
            anyhow!("line {line}, column {column}: {why}")
        })
}

/// Sets an entry of a valid text, or removes it if `entry` is `None`.
pub(super) fn edit(
    text: &str,
    entry_path: EntryPath<'_>,
    entry: Option<&Value>,
) -> anyhow::Result<String> {
    // `toml_edit` writes no carriage returns.
    let has_carriage_returns = text.contains("\r\n");
    let mut document: DocumentMut = text.replace("\r\n", "\n").parse()?;
    match entry {
        Some(entry) => {
            let servers = document.entry(entry_path.key).or_insert_with(|| {
                let mut servers = Table::new();
                servers.set_implicit(true);
                servers.into()
            });
            let servers = servers.as_table_like_mut();
            let servers =
                servers.with_context(|| format!("its `{}` is not a table", entry_path.key))?;
            set(servers, entry_path.name, entry)?;
        }
        None => {
            let servers = document.get_mut(entry_path.key);
            if let Some(servers) = servers.and_then(Item::as_table_like_mut) {
                servers.remove(entry_path.name);
            }
        }
    }
    let mut edited = document.to_string();
    if text.is_empty() {
        edited = edited.trim_start().to_owned();
    }
    if has_carriage_returns {
        edited = edited.replace('\n', "\r\n");
    }
    Ok(edited)
}

fn set(servers: &mut dyn TableLike, name: &str, entry: &Value) -> anyhow::Result<()> {
    let mut table = Table::new();
    match servers.get(name).and_then(Item::as_table) {
        Some(replaced) => {
            // Keep the comments above the header.
            *table.decor_mut() = replaced.decor().clone();
            table.set_position(replaced.position());
        }
        None => table.decor_mut().set_prefix("\n"),
    }
    for (key, field) in entry.as_object().into_iter().flatten() {
        let item = match field {
            Value::String(text) => value(text),
            Value::Array(items) => {
                let items = items.iter().map(|item| item.as_str());
                let items: Option<Array> = items.collect();
                value(items.context("a list has a value that is not a string")?)
            }
            _ => return Err(anyhow!("`{key}` is neither a string nor a list")),
        };
        table.insert(key, item);
    }
    servers.insert(name, Item::Table(table));
    Ok(())
}
