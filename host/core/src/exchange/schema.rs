//! JSON Schemas for model APIs. Most keywords that an API does not support are left out, because
//! the host still checks the arguments and tells the model what is wrong. Keywords that define the
//! structure of a value, such as `prefixItems`, must stay: without them, the model does not know
//! what to write.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords that are left out without a report: they limit no value, or models do not need them.
const DROPPED_SILENTLY: [&str; 15] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "additionalProperties",
    "default",
    "definitions",
    "deprecated",
    "example",
    "examples",
    "propertyOrdering",
    "readOnly",
    "title",
    "writeOnly",
];

/// Keywords that no API accepts at the top level of a schema.
const NOT_AT_THE_TOP: [&str; 5] = ["allOf", "anyOf", "oneOf", "not", "enum"];

/// Keywords that Gemini's `Schema` shares with JSON Schema.
const GEMINI_KEYWORDS: [&str; 10] = [
    "description",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
];

/// Keywords that define the structure of a value, and that Gemini's `Schema` does not support.
const BEYOND_GEMINI: [&str; 5] = [
    "allOf",
    "patternProperties",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Returns a tool's schema with the top level that the APIs require: an object with `properties`,
/// and without keywords such as `anyOf` that offer alternatives.
pub(super) fn root_object(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema.clone();
    for keyword in NOT_AT_THE_TOP {
        schema.shift_remove(keyword);
    }
    if schema.get("type").is_none_or(|kind| kind != "object") {
        schema.shift_insert(0, "type".to_owned(), "object".into());
    }
    let properties = schema.entry("properties");
    properties.or_insert_with(|| Map::new().into());
    schema
}

/// Returns a schema in Gemini's subset of OpenAPI. Returns `None` if the subset cannot express the
/// schema. The function's declaration must then contain the JSON Schema itself.
pub(super) fn gemini_subset(schema: &Map<String, Value>) -> Option<Map<String, Value>> {
    if BEYOND_GEMINI.iter().any(|key| schema.contains_key(*key)) {
        return None;
    }
    if let Some(choice) = nullable_choice(schema) {
        return gemini_choice(schema, choice?);
    }
    let (kinds, nullable) = kinds(schema)?;
    let [kind] = kinds.as_slice() else {
        return None;
    };
    let mut subset = Map::new();
    subset.insert("type".to_owned(), kind.to_uppercase().into());
    if nullable {
        subset.insert("nullable".to_owned(), true.into());
    }
    for keyword in GEMINI_KEYWORDS {
        if let Some(value) = schema.get(keyword) {
            subset.insert(keyword.to_owned(), value.clone());
        }
    }
    if let Some(format) = schema.get("format").and_then(Value::as_str)
        && gemini_formats(kind).contains(&format)
    {
        subset.insert("format".to_owned(), format.into());
    }
    match kind.as_str() {
        "string" => {
            if let Some(values) = gemini_enum(schema) {
                subset.insert("enum".to_owned(), values.into());
            }
        }
        "array" => {
            let items = gemini_subset(schema.get("items")?.as_object()?)?;
            subset.insert("items".to_owned(), items.into());
        }
        "object" => {
            let properties = schema.get("properties")?.as_object()?;
            if properties.is_empty() {
                return None;
            }
            let mut converted = Map::new();
            for (name, property) in properties {
                let property = gemini_subset(property.as_object()?)?;
                converted.insert(name.clone(), property.into());
            }
            let required: Vec<Value> = names(schema, "required")
                .filter(|name| properties.contains_key(*name))
                .map(Value::from)
                .collect();
            subset.insert("properties".to_owned(), converted.into());
            if !required.is_empty() {
                subset.insert("required".to_owned(), required.into());
            }
        }
        _ => {}
    }
    Some(subset)
}

/// Returns the subset for a choice between null and the schema `choice`. The description in
/// `schema`, which contains the choice, replaces the description in `choice`.
fn gemini_choice(schema: &Map<String, Value>, choice: &Value) -> Option<Map<String, Value>> {
    let mut choice = choice.as_object()?.clone();
    if let Some(description) = schema.get("description") {
        choice.insert("description".to_owned(), description.clone());
    }
    let mut subset = gemini_subset(&choice)?;
    subset.insert("nullable".to_owned(), true.into());
    Some(subset)
}

/// Adds to `dropped` each keyword of a schema that limits values and that its translation `written`
/// lacks.
pub(super) fn add_dropped<'a>(
    schema: &'a Map<String, Value>,
    written: &Map<String, Value>,
    dropped: &mut BTreeSet<&'a str>,
) {
    let is_choice = |keyword: &str| matches!(keyword, "anyOf" | "oneOf");
    for (keyword, value) in schema {
        let inner = written.get(keyword);
        match (
            keyword.as_str(),
            value.as_object(),
            inner.and_then(Value::as_object),
        ) {
            ("properties", Some(properties), Some(inner)) => {
                for (name, property) in properties {
                    let pair = (
                        property.as_object(),
                        inner.get(name).and_then(Value::as_object),
                    );
                    if let (Some(property), Some(inner)) = pair {
                        add_dropped(property, inner, dropped);
                    }
                }
            }
            ("items", Some(items), Some(inner)) => add_dropped(items, inner, dropped),
            ("const", ..) if written.contains_key("enum") => {}
            (choice, ..) if is_choice(choice) && written.contains_key("nullable") => {
                if let Some(Some(Value::Object(choice))) = nullable_choice(schema) {
                    add_dropped(choice, written, dropped);
                }
            }
            _ if inner.is_some() || DROPPED_SILENTLY.contains(&keyword.as_str()) => {}
            // An empty list requires nothing.
            ("required", ..) if value.as_array().is_some_and(Vec::is_empty) => {}
            _ => drop(dropped.insert(keyword)),
        }
    }
}

fn gemini_formats(kind: &str) -> &'static [&'static str] {
    match kind {
        "number" => &["float", "double"],
        "integer" => &["int32", "int64"],
        "string" => &["date-time"],
        _ => &[],
    }
}

/// Returns the values of a string enumeration, if Gemini accepts all of them. Gemini refuses empty
/// strings.
fn gemini_enum(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    let values: Vec<Value> = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => {
            let non_null = values.iter().filter(|value| !value.is_null());
            non_null.cloned().collect()
        }
        (_, Some(value)) => vec![value.clone()],
        _ => return None,
    };
    let is_allowed = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    (!values.is_empty() && values.iter().all(is_allowed)).then_some(values)
}

/// Returns the schema `S` if `schema` is a choice between null and one schema `S`.
///
/// The outer `Option` is `None` if `schema` is not a choice. The inner `Option` is `None` if
/// `schema` is any other choice.
fn nullable_choice(schema: &Map<String, Value>) -> Option<Option<&Value>> {
    let choices = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    let is_null = |choice: &&Value| choice.get("type").is_some_and(|kind| kind == "null");
    let choices = choices.as_array()?;
    let others: Vec<&Value> = choices.iter().filter(|choice| !is_null(choice)).collect();
    Some(match others.as_slice() {
        [one] if others.len() < choices.len() && !schema.contains_key("properties") => Some(*one),
        _ => None,
    })
}

/// Returns the types other than null that a schema names or implies, and whether it allows null.
/// Returns `None` if the schema neither names nor implies types.
pub(super) fn kinds(schema: &Map<String, Value>) -> Option<(Vec<String>, bool)> {
    let mut kinds: Vec<String> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind.clone()],
        Some(Value::Array(_)) => names(schema, "type").map(str::to_owned).collect(),
        _ if schema.contains_key("properties") => vec!["object".to_owned()],
        _ if schema.contains_key("items") => vec!["array".to_owned()],
        _ => {
            let values = match (schema.get("enum"), schema.get("const")) {
                (Some(Value::Array(values)), _) => values.iter().collect(),
                (_, Some(value)) => vec![value],
                _ => return None,
            };
            let mut kinds: Vec<String> = values.into_iter().map(kind_of).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        }
    };
    let named = kinds.len();
    kinds.retain(|kind| kind != "null");
    let nullable = kinds.len() < named;
    Some((kinds, nullable))
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
    .to_owned()
}

/// Returns the strings in the list that is the value of a keyword.
pub(super) fn names<'a>(
    schema: &'a Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = &'a str> {
    let list = schema.get(keyword).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn top_level_is_object_without_choice() {
        assert_eq!(
            Value::from(root_object(&object(
                json!({"anyOf": [{"required": ["a"]}]})
            ))),
            json!({"type": "object", "properties": {}})
        );
        let plain = json!({"description": "x", "type": "object", "properties": {"a": {}}});
        assert_eq!(Value::from(root_object(&object(plain.clone()))), plain);
    }

    #[test]
    fn gemini_subset_has_one_type_and_known_keywords() {
        for (given, expected) in [
            (json!({"type": "string"}), json!({"type": "STRING"})),
            (
                json!({"type": ["integer", "null"], "format": "int64", "minimum": 1, "default": 2}),
                json!({"type": "INTEGER", "nullable": true, "minimum": 1, "format": "int64"}),
            ),
            (
                json!({"type": "string", "format": "uri", "enum": ["a", null]}),
                json!({"type": "STRING", "enum": ["a"]}),
            ),
            (
                json!({"const": "a"}),
                json!({"type": "STRING", "enum": ["a"]}),
            ),
            (json!({"enum": ["", "a"]}), json!({"type": "STRING"})),
            (json!({"enum": [1, 2]}), json!({"type": "INTEGER"})),
            (
                json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "A."}),
                json!({"type": "STRING", "description": "A.", "nullable": true}),
            ),
            (
                json!({"type": "array", "items": {"type": "number", "multipleOf": 2}}),
                json!({"type": "ARRAY", "items": {"type": "NUMBER"}}),
            ),
            (
                json!({
                    "properties": {"b": {"type": "boolean"}},
                    "required": ["b", "c"],
                    "additionalProperties": false,
                }),
                json!({"type": "OBJECT", "properties": {"b": {"type": "BOOLEAN"}}, "required": ["b"]}),
            ),
        ] {
            let subset = gemini_subset(&object(given.clone())).map(Value::from);
            assert_eq!(subset, Some(expected), "{given}");
        }
    }

    #[test]
    fn reports_dropped_keywords_only_if_they_limit_values() {
        for (given, expected) in [
            (
                json!({
                    "$schema": "x",
                    "type": "object",
                    "properties": {
                        "a": {"type": "string", "format": "uri", "default": "x", "minLength": 1},
                        "b": {"type": "array", "items": {"type": "integer", "multipleOf": 2}},
                        "c": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]},
                        "d": {"const": "x"},
                    },
                    "required": [],
                    "additionalProperties": false,
                }),
                &["exclusiveMinimum", "format", "multipleOf"][..],
            ),
            (
                json!({"properties": {"a": {"type": "string", "pattern": "x"}}, "required": ["a"]}),
                &[],
            ),
        ] {
            let given = object(given);
            let mut dropped = BTreeSet::new();
            add_dropped(&given, &gemini_subset(&given).unwrap(), &mut dropped);
            assert_eq!(dropped.into_iter().collect::<Vec<_>>(), expected);
        }
        let given = object(json!({"type": "object", "oneOf": [{"required": ["a"]}]}));
        let mut dropped = BTreeSet::new();
        add_dropped(&given, &root_object(&given), &mut dropped);
        assert_eq!(dropped.into_iter().collect::<Vec<_>>(), ["oneOf"]);
    }

    #[test]
    fn gemini_subset_refuses_schemas_it_cannot_express() {
        for given in [
            json!({}),
            json!({"type": ["string", "integer"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}}),
            json!({"type": "object", "properties": {"a": true}}),
            json!({"type": "array"}),
            json!({"type": "array", "prefixItems": [{"type": "string"}]}),
            json!({"allOf": [{"type": "string"}]}),
        ] {
            assert_eq!(gemini_subset(&object(given.clone())), None, "{given}");
        }
    }
}
