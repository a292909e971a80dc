//! The JSON Schema of a WIT type. Rules that a schema cannot express, such as that a
//! string is base64, are checked when the value is made.

use serde_json::{Map, Value, json};

use super::shape::{Integer, Label, Shape};

/// The largest integer that every reader of JSON reads exactly: many hold numbers as
/// floats, which skip integers above it.
pub(crate) const MAX_EXACT: i128 = 9_007_199_254_740_991;

/// The strings for floats that JSON cannot write as numbers.
pub(crate) const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Returns the schema of values of this type.
pub(crate) fn value_schema(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer(integer) => integer_schema(*integer),
        Shape::Float32 | Shape::Float64 => {
            json!({"anyOf": [{"type": "number"}, {"type": "string", "enum": NOT_FINITE}]})
        }
        Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Shape::String => json!({"type": "string"}),
        Shape::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Shape::List(element) => json!({"type": "array", "items": value_schema(element)}),
        Shape::Tuple(shapes) => {
            let items: Vec<Value> = shapes.iter().map(value_schema).collect();
            json!({
                "type": "array",
                "prefixItems": items,
                "minItems": shapes.len(),
                "maxItems": shapes.len(),
            })
        }
        Shape::Record(fields) => Value::Object(object_schema(fields)),
        Shape::Variant(cases) => cases_schema(
            cases
                .iter()
                .map(|(label, shape)| (&*label.json, shape.as_ref())),
        ),
        Shape::Result(cases) => {
            let [ok, err] = &**cases;
            cases_schema([("ok", ok.as_ref()), ("err", err.as_ref())].into_iter())
        }
        Shape::Enum(labels) => json!({"type": "string", "enum": names(labels)}),
        Shape::Flags(labels) => json!({
            "type": "array",
            "items": {"type": "string", "enum": names(labels)},
            "uniqueItems": true,
            "maxItems": labels.len(),
        }),
        Shape::Option(shape) => nullable(some_schema(shape)),
    }
}

/// Returns the schema of an object with these properties and no others. An option
/// may be left out.
pub(crate) fn object_schema(fields: &[(Label, Shape)]) -> Map<String, Value> {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(label, shape)| (label.json.clone(), value_schema(shape)))
        .collect();
    let required: Vec<&str> = fields
        .iter()
        .filter(|(_, shape)| !matches!(shape, Shape::Option(_)))
        .map(|(label, _)| &*label.json)
        .collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema.insert("additionalProperties".to_owned(), false.into());
    schema
}

/// Returns the schema of an integer. One of 64 bits is a number up to [`MAX_EXACT`],
/// and a string of its digits beyond.
fn integer_schema(integer: Integer) -> Value {
    let (least, most) = integer.range();
    let number = |least: i128, most: i128| {
        let (least, most) = (as_number(least), as_number(most));
        json!({"type": "integer", "minimum": least, "maximum": most})
    };
    if most <= MAX_EXACT {
        return number(least, most);
    }
    let digits = if least < 0 {
        "^-?[0-9]{1,19}$"
    } else {
        "^[0-9]{1,20}$"
    };
    json!({"anyOf": [
        number(least.max(-MAX_EXACT), MAX_EXACT),
        {"type": "string", "pattern": digits},
    ]})
}

/// Returns a number of at most 2^53 as JSON.
fn as_number(number: i128) -> Value {
    i64::try_from(number).map_or(Value::Null, Value::from)
}

/// Returns the schema of an option's value. A value that can be null itself is put
/// into an object.
fn some_schema(shape: &Shape) -> Value {
    match shape {
        Shape::Option(_) => single_property_schema("some", value_schema(shape)),
        shape => value_schema(shape),
    }
}

/// Returns the schema of cases. A case with a payload is an object of one property;
/// one without is its name.
fn cases_schema<'a>(cases: impl Iterator<Item = (&'a str, Option<&'a Shape>)> + Clone) -> Value {
    let names = cases.clone().filter(|(_, shape)| shape.is_none());
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    let with =
        cases.filter_map(|(name, shape)| Some(single_property_schema(name, value_schema(shape?))));
    let mut choices: Vec<Value> = with.collect();
    if !names.is_empty() {
        choices.push(json!({"type": "string", "enum": names}));
    }
    match choices.len() {
        1 => choices.remove(0),
        _ => json!({"anyOf": choices}),
    }
}

fn single_property_schema(name: &str, schema: Value) -> Value {
    json!({
        "type": "object",
        "properties": {name: schema},
        "required": [name],
        "additionalProperties": false,
    })
}

/// Returns a schema that also allows null.
fn nullable(mut schema: Value) -> Value {
    if schema.get("enum").is_none()
        && let Some(kind @ Value::String(_)) = schema.get_mut("type")
    {
        *kind = json!([kind.take(), "null"]);
        return schema;
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.push(json!({"type": "null"}));
        return schema;
    }
    json!({"anyOf": [schema, {"type": "null"}]})
}

fn names(labels: &[Label]) -> Vec<&str> {
    labels.iter().map(|label| &*label.json).collect()
}
