//! Makes the smallest arguments that a schema accepts.
//!
//! This works for common schemas. For other schemas, the author must write a case.

use serde_json::{Map, Value};

/// Makes arguments with the required properties.
pub(super) fn arguments(schema: &Map<String, Value>) -> Map<String, Value> {
    object(schema, MAX_SIZE)
}

/// Makes an object with the required properties. Each array in the object gets at most `max_items`
/// items. If arrays are nested, this is the limit for all their items together.
fn object(schema: &Map<String, Value>, max_items: usize) -> Map<String, Value> {
    let empty = Map::new();
    let properties = object_at(schema, "properties").unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let members = names.filter_map(|name| {
        let schema = properties.get(name)?;
        Some((name.to_owned(), value(schema, max_items)))
    });
    members.collect()
}

/// Makes a value that a common schema accepts.
fn value(schema: &Value, max_items: usize) -> Value {
    let Value::Object(schema) = schema else {
        return text(&Map::new());
    };
    let fixed = ["const", "default"]
        .into_iter()
        .find_map(|key| schema.get(key));
    let listed = ["enum", "examples"].into_iter().find_map(|key| {
        schema
            .get(key)?
            .as_array()?
            .iter()
            .find(|value| !value.is_null())
    });
    if let Some(value) = fixed.or(listed) {
        return value.clone();
    }
    let choices = ["anyOf", "oneOf"]
        .into_iter()
        .find_map(|key| schema.get(key)?.as_array());
    if let Some(choices) = choices {
        let is_null = |choice: &&Value| choice.get("type").is_some_and(|kind| kind == "null");
        return choices
            .iter()
            .find(|choice| !is_null(choice))
            .map_or(Value::Null, |choice| value(choice, max_items));
    }
    match kind(schema) {
        Some("integer" | "number") => number(schema),
        Some("boolean") => false.into(),
        Some("null") => Value::Null,
        Some("array") => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let count = usize::try_from(least).unwrap_or(max_items).min(max_items);
            let nested_items = max_items / count.max(1);
            let item = match schema.get("items") {
                Some(item) => value(item, nested_items),
                None => text(schema),
            };
            vec![item; count].into()
        }
        Some("object") => object(schema, max_items).into(),
        None if schema.contains_key("properties") => object(schema, max_items).into(),
        _ => text(schema),
    }
}

/// The maximum number of items of an array together with its nested arrays, and of characters of a
/// text.
const MAX_SIZE: usize = 1000;

/// Returns the schema's type, or the first of its types that is not null.
fn kind(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type")? {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.find(|kind| *kind != "null")
        }
        _ => None,
    }
}

fn number(schema: &Map<String, Value>) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64);
    let above = bound("exclusiveMinimum").and_then(|bound| bound.checked_add(1));
    let below = bound("exclusiveMaximum").and_then(|bound| bound.checked_sub(1));
    let minimum = bound("minimum").into_iter().chain(above).max();
    let maximum = bound("maximum").into_iter().chain(below).min();
    let step = bound("multipleOf").filter(|step| *step > 0).unwrap_or(1);
    // Choose a multiple of `step` within the bounds: the lowest multiple, or one near zero if there
    // is no `minimum`.
    let number = match (minimum, maximum) {
        (Some(minimum), _) => minimum.saturating_add(step - 1).div_euclid(step) * step,
        (None, Some(maximum)) if maximum < step => maximum.div_euclid(step).saturating_mul(step),
        (None, _) => step,
    };
    number.into()
}

fn text(schema: &Map<String, Value>) -> Value {
    let keyword = |key: &str| schema.get(key).and_then(Value::as_str);
    if keyword("contentEncoding") == Some("base64") {
        return "YQ==".into();
    }
    let example = match keyword("format") {
        Some("date-time") => "2024-01-31T12:00:00Z",
        Some("date") => "2024-01-31",
        Some("time") => "12:00:00Z",
        Some("uri") => "https://example.org/",
        Some("email") => "a@example.org",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => "a",
    };
    if example != "a" {
        return example.into();
    }
    let length = schema.get("minLength").and_then(Value::as_u64).unwrap_or(1);
    let length = usize::try_from(length).unwrap_or(MAX_SIZE);
    "a".repeat(length.clamp(1, MAX_SIZE)).into()
}

fn object_at<'a>(schema: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    schema.get(key).and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use skillhost_sandbox::tool::arguments::check_arguments;

    #[test]
    fn nested_arrays_share_one_bound() {
        let mut nested = json!({"type": "integer"});
        for _ in 0..4 {
            nested = json!({"type": "array", "minItems": 10, "items": nested});
        }
        let schema = json!({"properties": {"a": nested}, "required": ["a"]});
        let arguments = Value::from(arguments(schema.as_object().unwrap()));
        assert_eq!(arguments.pointer("/a/9/9/9"), Some(&json!([1])));
        assert_eq!(arguments.to_string().matches('1').count(), MAX_SIZE);
    }

    #[test]
    fn makes_arguments_that_the_schema_accepts() {
        let schema_with = |property: Value| json!({"properties": {"a": property, "b": {"type": "string"}}, "required": ["a"]});
        for (property, expected) in [
            (json!({"type": "string"}), json!("a")),
            (json!({"type": "string", "minLength": 3}), json!("aaa")),
            (
                json!({"type": "string", "format": "date"}),
                json!("2024-01-31"),
            ),
            (
                json!({"type": "string", "contentEncoding": "base64"}),
                json!("YQ=="),
            ),
            (json!({"type": ["null", "integer"]}), json!(1)),
            (json!({"type": "integer", "minimum": 5}), json!(5)),
            (json!({"type": "integer", "exclusiveMinimum": 5}), json!(6)),
            (
                json!({"type": "integer", "minimum": 2, "exclusiveMinimum": 5}),
                json!(6),
            ),
            (
                json!({"type": "integer", "maximum": 2, "exclusiveMaximum": -5}),
                json!(-6),
            ),
            (json!({"type": "number", "maximum": -2}), json!(-2)),
            (
                json!({"type": "integer", "minimum": 5, "multipleOf": 4}),
                json!(8),
            ),
            (
                json!({"type": "integer", "minimum": 4, "maximum": 7, "multipleOf": 4}),
                json!(4),
            ),
            (json!({"type": "integer", "multipleOf": 5}), json!(5)),
            (
                json!({"type": "integer", "maximum": -3, "multipleOf": 5}),
                json!(-5),
            ),
            (json!({"type": "boolean"}), json!(false)),
            (json!({"enum": [null, "x"]}), json!("x")),
            (json!({"const": 7}), json!(7)),
            (json!({"type": "integer", "default": 9}), json!(9)),
            (json!({"type": "string", "examples": ["e"]}), json!("e")),
            (
                json!({"anyOf": [{"type": "null"}, {"type": "boolean"}]}),
                json!(false),
            ),
            (json!({"type": "array"}), json!([])),
            (
                json!({"type": "array", "minItems": 2, "items": {"type": "integer"}}),
                json!([1, 1]),
            ),
            (
                json!({"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"]}),
                json!({"c": "a"}),
            ),
            (json!({}), json!("a")),
        ] {
            let Value::Object(schema) = schema_with(property.clone()) else {
                panic!("{property}")
            };
            let arguments = arguments(&schema);
            assert_eq!(
                Value::from(arguments.clone()),
                json!({"a": expected}),
                "{property}"
            );
            let checked = check_arguments(&schema, arguments.into()).unwrap();
            assert!(checked.is_ok(), "{property}: {checked:?}");
        }
    }
}
