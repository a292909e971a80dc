//! The JSON Schema of a WIT type. What it cannot say, such as that a string is
//! base64, is checked when the value is made.

use serde_json::{Map, Value, json};

use super::shape::{Integer, Label, Shape};

/// The largest integer that every reader of JSON reads as it is written: many
/// hold numbers as floats, and count by ones no further.
pub(crate) const EXACT: i128 = 9_007_199_254_740_991;

/// Numbers that JSON has no words for.
pub(crate) const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The schema of values of this type.
pub(crate) fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer(integer) => of_integer(*integer),
        Shape::Float32 | Shape::Float64 => {
            json!({"anyOf": [{"type": "number"}, {"type": "string", "enum": NO_NUMBERS}]})
        }
        Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Shape::String => json!({"type": "string"}),
        Shape::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Shape::List(element) => json!({"type": "array", "items": of(element)}),
        Shape::Tuple(shapes) => {
            let items: Vec<Value> = shapes.iter().map(of).collect();
            json!({
                "type": "array",
                "prefixItems": items,
                "minItems": shapes.len(),
                "maxItems": shapes.len(),
            })
        }
        Shape::Record(fields) => Value::Object(of_object(fields)),
        Shape::Variant(cases) => of_cases(
            cases
                .iter()
                .map(|(label, shape)| (&*label.json, shape.as_ref())),
        ),
        Shape::Result(cases) => {
            let [ok, err] = &**cases;
            of_cases([("ok", ok.as_ref()), ("err", err.as_ref())].into_iter())
        }
        Shape::Enum(labels) => json!({"type": "string", "enum": names(labels)}),
        Shape::Flags(labels) => json!({
            "type": "array",
            "items": {"type": "string", "enum": names(labels)},
            "uniqueItems": true,
            "maxItems": labels.len(),
        }),
        Shape::Option(shape) => nullable(of_some(shape)),
    }
}

/// The schema of an object with these properties, and no others. An option may
/// be left out.
pub(crate) fn of_object(fields: &[(Label, Shape)]) -> Map<String, Value> {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(label, shape)| (label.json.clone(), of(shape)))
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

/// An integer of 64 bits is a number where every reader of JSON has it as it
/// is, and a string of its digits beyond.
fn of_integer(integer: Integer) -> Value {
    let (least, most) = integer.range();
    let number = |least: i128, most: i128| {
        let (least, most) = (as_number(least), as_number(most));
        json!({"type": "integer", "minimum": least, "maximum": most})
    };
    if most <= EXACT {
        return number(least, most);
    }
    let digits = if least < 0 {
        "^-?[0-9]{1,19}$"
    } else {
        "^[0-9]{1,20}$"
    };
    json!({"anyOf": [
        number(least.max(-EXACT), EXACT),
        {"type": "string", "pattern": digits},
    ]})
}

/// A number of at most 2^53.
fn as_number(number: i128) -> Value {
    i64::try_from(number).map_or(Value::Null, Value::from)
}

/// What an option has when it has something: a value for which null is one of
/// its own is put into an object.
fn of_some(shape: &Shape) -> Value {
    match shape {
        Shape::Option(_) => object_of_one("some", of(shape)),
        shape => of(shape),
    }
}

/// A case with a payload is an object of one property, one without is its name.
fn of_cases<'a>(cases: impl Iterator<Item = (&'a str, Option<&'a Shape>)> + Clone) -> Value {
    let names = cases.clone().filter(|(_, shape)| shape.is_none());
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    let with = cases.filter_map(|(name, shape)| Some(object_of_one(name, of(shape?))));
    let mut choices: Vec<Value> = with.collect();
    if !names.is_empty() {
        choices.push(json!({"type": "string", "enum": names}));
    }
    match choices.len() {
        1 => choices.remove(0),
        _ => json!({"anyOf": choices}),
    }
}

fn object_of_one(name: &str, schema: Value) -> Value {
    json!({
        "type": "object",
        "properties": {name: schema},
        "required": [name],
        "additionalProperties": false,
    })
}

/// A schema that takes null, too.
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
