//! Makes values that match a schema. Supports the schemas of WIT types completely, and other
//! schemas in simple cases.

use serde_json::{Map, Value, json};

/// Returns a value that matches a schema. `pick` selects alternatives; an even `pick` omits
/// optional properties.
pub(crate) fn value(schema: &Map<String, Value>, pick: usize) -> Value {
    let choices = |key: &str| schema.get(key).and_then(Value::as_array);
    let chosen = |choices: &[Value]| match choices.len() {
        0 => Value::Null,
        many => choices[pick % many].clone(),
    };
    if let Some(values) = choices("enum") {
        return chosen(values);
    }
    if let Some(schemas) = choices("anyOf") {
        return nested(&chosen(schemas), pick);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => chosen(kinds),
        Some(kind) => kind.clone(),
        None => Value::Null,
    };
    match kind.as_str() {
        Some("boolean") => pick.is_multiple_of(2).into(),
        Some("integer") => match schema.get(["minimum", "maximum"][pick % 2]) {
            Some(Value::Number(bound)) => bound.clone().into(),
            _ => pick.into(),
        },
        Some("number") => json!(1.5),
        Some("string") if schema.contains_key("contentEncoding") => json!("AP8="),
        Some("string") if schema.contains_key("pattern") => json!("7"),
        Some("string") => "a".into(),
        Some("array") => array(schema, pick),
        Some("object") => object(schema, pick),
        _ => Value::Null,
    }
}

fn nested(schema: &Value, pick: usize) -> Value {
    let schema = schema.as_object();
    schema.map_or(Value::Null, |schema| value(schema, pick))
}

fn array(schema: &Map<String, Value>, pick: usize) -> Value {
    if let Some(Value::Array(items)) = schema.get("prefixItems") {
        return items.iter().map(|item| nested(item, pick)).collect();
    }
    let items = schema.get("items").unwrap_or(&Value::Null);
    // At most one item: nested arrays of two would grow exponentially.
    (0..pick.min(1)).map(|_| nested(items, pick)).collect()
}

fn object(schema: &Map<String, Value>, pick: usize) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let left_out = |name: &str| {
        let required = required.is_some_and(|names| names.iter().any(|one| one == name));
        !required && pick.is_multiple_of(2)
    };
    let properties = properties.into_iter().flatten();
    let given = properties.filter(|(name, _)| !left_out(name));
    given
        .map(|(name, schema)| (name.clone(), nested(schema, pick)))
        .collect()
}
