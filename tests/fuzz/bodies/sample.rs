//! Values that fit a schema, one of several: what somebody sends who has read
//! the definition. All that the schemas of WIT types say is kept to; of others,
//! what is easy.

use serde_json::{Map, Value, json};

/// A value for a schema. The higher `pick`, the later the choice where there is
/// one, and the more of what may be left out.
pub(crate) fn of(schema: &Map<String, Value>, pick: usize) -> Value {
    let choices = |key: &str| schema.get(key).and_then(Value::as_array);
    let chosen = |choices: &[Value]| match choices.len() {
        0 => Value::Null,
        many => choices[pick % many].clone(),
    };
    if let Some(values) = choices("enum") {
        return chosen(values);
    }
    if let Some(schemas) = choices("anyOf") {
        return within(&chosen(schemas), pick);
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

fn within(schema: &Value, pick: usize) -> Value {
    let schema = schema.as_object();
    schema.map_or(Value::Null, |schema| of(schema, pick))
}

fn array(schema: &Map<String, Value>, pick: usize) -> Value {
    if let Some(Value::Array(items)) = schema.get("prefixItems") {
        return items.iter().map(|item| within(item, pick)).collect();
    }
    let items = schema.get("items").unwrap_or(&Value::Null);
    // One is enough: two, of two each, would soon be too many.
    (0..pick.min(1)).map(|_| within(items, pick)).collect()
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
        .map(|(name, schema)| (name.clone(), within(schema, pick)))
        .collect()
}
