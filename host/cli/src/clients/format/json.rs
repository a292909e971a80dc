//! JSON, with and without comments. `jsonc-parser` edits its concrete syntax tree.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow, ensure};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::EntryPath;

/// Parses the text. An empty text is an empty object.
pub(super) fn read(text: &str, allows_comments: bool) -> anyhow::Result<Value> {
    let root = parse(text, allows_comments)?;
    if !allows_comments && !text.trim().is_empty() {
        // `jsonc-parser` accepts some comments even if the options forbid them.
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let why = error.to_string();
            let why = why.split(" at line ").next().unwrap_or_default();
            anyhow!(
                "line {line}, column {column}: {why}; comments and trailing commas are not allowed"
            )
        })?;
    }
    let Some(value) = root.value() else {
        return Ok(Map::new().into());
    };
    if let Some(settings) = value.as_object() {
        check_keys(&settings)?;
        for property in settings.properties() {
            if let Some(servers) = property.object_value() {
                check_keys(&servers)?;
            }
        }
    }
    value
        .to_serde_value()
        .context("a part of it is not a JSON value")
}

/// Sets an entry of a valid text, or removes it if `entry` is `None`.
pub(super) fn edit(
    text: &str,
    entry_path: EntryPath<'_>,
    entry: Option<&Value>,
) -> anyhow::Result<String> {
    let root = parse(text, true)?;
    let settings = root
        .object_value_or_create()
        .context("its top level is not an object")?;
    match entry {
        Some(entry) => {
            let servers = settings.object_value_or_set(entry_path.key);
            match servers.get(entry_path.name) {
                Some(property) => property.set_value(input(entry)),
                None => {
                    servers.append(entry_path.name, input(entry));
                }
            }
        }
        None => {
            let servers = settings.object_value(entry_path.key);
            if let Some(property) = servers.and_then(|servers| servers.get(entry_path.name)) {
                property.remove();
            }
        }
    }
    Ok(root.to_string())
}

fn parse(text: &str, allows_comments: bool) -> anyhow::Result<CstRootNode> {
    let options = ParseOptions {
        allow_comments: allows_comments,
        allow_trailing_commas: allows_comments,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| {
        let (line, column) = super::position(text, error.range().start);
        let why = error.kind().to_string();
        anyhow!("line {line}, column {column}: {}", lower_first(&why))
    })
}

/// Refuses repeated keys, because clients differ in which of the values they use.
fn check_keys(object: &CstObject) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    for property in object.properties() {
        let name = property.decoded_name().unwrap_or_default();
        ensure!(!names.contains(&name), "the key `{name}` occurs twice");
        names.insert(name);
    }
    Ok(())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| (key.clone(), input(value)));
            CstInputValue::Object(entries.collect())
        }
    }
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}
