//! Arguments made from a schema: the least that it accepts, for common schemas. For
//! any other, the author writes a case.

use serde_json::{Map, Value};

/// Makes arguments with the required properties.
pub(super) fn arguments(schema: &Map<String, Value>) -> Map<String, Value> {
    object(schema, MOST)
}

/// Makes an object with the required properties, of which an array has so many items at
/// most, with those of arrays within it.
fn object(schema: &Map<String, Value>, most: usize) -> Map<String, Value> {
    let none = Map::new();
    let properties = object_at(schema, "properties").unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let made = names.filter_map(|name| Some((name.to_owned(), value(properties.get(name)?, most))));
    made.collect()
}

/// Makes a value that a schema accepts, if it is a common one.
fn value(schema: &Value, most: usize) -> Value {
    let Value::Object(schema) = schema else {
        return text(&Map::new());
    };
    let given = ["const", "default"]
        .into_iter()
        .find_map(|key| schema.get(key));
    let listed = ["enum", "examples"].into_iter().find_map(|key| {
        schema
            .get(key)?
            .as_array()?
            .iter()
            .find(|value| !value.is_null())
    });
    if let Some(value) = given.or(listed) {
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
            .map_or(Value::Null, |choice| value(choice, most));
    }
    match kind(schema) {
        Some("integer" | "number") => number(schema),
        Some("boolean") => false.into(),
        Some("null") => Value::Null,
        Some("array") => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let count = usize::try_from(least).unwrap_or(most).min(most);
            let most = most / count.max(1);
            let item = schema.get("items");
            let item = item.map_or_else(|| text(schema), |item| value(item, most));
            vec![item; count].into()
        }
        Some("object") => object(schema, most).into(),
        None if schema.contains_key("properties") => object(schema, most).into(),
        _ => text(schema),
    }
}

/// Most items of an array, with those of arrays within it, and most characters of a text.
const MOST: usize = 1000;

/// Returns the first type of a schema that is not null.
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
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum")?.checked_add(1));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum")?.checked_sub(1));
    let least = match bound("multipleOf") {
        Some(step) if step > 0 => least.map(|least| least.div_euclid(step) * step + step),
        _ => least,
    };
    least
        .unwrap_or_else(|| most.map_or(1, |most| most.min(1)))
        .into()
}

fn text(schema: &Map<String, Value>) -> Value {
    let word = |key: &str| schema.get(key).and_then(Value::as_str);
    if word("contentEncoding") == Some("base64") {
        return "YQ==".into();
    }
    let example = match word("format") {
        Some("date-time") => "2024-01-31T12:00:00Z",
        Some("date") => "2024-01-31",
        Some("time") => "12:00:00Z",
        Some("uri") => "https://example.org/",
        Some("email") => "a@example.org",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => "a",
    };
    let least = schema.get("minLength").and_then(Value::as_u64);
    let least = least.map_or(1, |least| usize::try_from(least).unwrap_or(MOST).min(MOST));
    match example {
        "a" => "a".repeat(least.max(1)).into(),
        example => example.into(),
    }
}

fn object_at<'a>(schema: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    schema.get(key).and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use skillhost::internal::check_arguments;

    #[test]
    fn arrays_within_each_other_are_small_together() {
        let mut nested = json!({"type": "integer"});
        for _ in 0..4 {
            nested = json!({"type": "array", "minItems": 10, "items": nested});
        }
        let schema = json!({"properties": {"a": nested}, "required": ["a"]});
        let made = Value::from(arguments(schema.as_object().unwrap()));
        assert_eq!(made.pointer("/a/9/9/9"), Some(&json!([1])));
        assert_eq!(made.to_string().matches('1').count(), MOST);
    }

    #[test]
    fn makes_arguments_that_the_schema_accepts() {
        let of = |property: Value| json!({"properties": {"a": property, "b": {"type": "string"}}, "required": ["a"]});
        for (property, made) in [
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
            (json!({"type": "number", "maximum": -2}), json!(-2)),
            (
                json!({"type": "integer", "minimum": 5, "multipleOf": 4}),
                json!(8),
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
            let Value::Object(schema) = of(property.clone()) else {
                panic!("{property}")
            };
            let arguments = arguments(&schema);
            assert_eq!(
                Value::from(arguments.clone()),
                json!({"a": made}),
                "{property}"
            );
            let checked = check_arguments(&schema, arguments.into()).unwrap();
            assert!(checked.is_ok(), "{property}: {checked:?}");
        }
    }
}
