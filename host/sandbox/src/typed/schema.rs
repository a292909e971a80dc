//! JSON Schemas of WIT types, with comments as descriptions. Rules that a schema cannot
//! express, such as that a string is base64, are checked when a value is lowered.

use serde_json::{Map, Value, json};

use super::comments::TypeComments;
use super::docs::join_lines;
use super::shape::{Integer, Label, Shape};

/// The largest integer that every JSON parser represents exactly. Many parsers use floats, which
/// skip some larger integers.
pub(crate) const MAX_EXACT: i128 = 9_007_199_254_740_991;

/// The strings for floats that JSON cannot write as numbers.
pub(crate) const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The maximum size of all comments on types in the schemas of a component, in bytes. Guards
/// against: a comment on a type that is used a thousand times.
const MAX_COMMENT_BYTES: usize = 64 << 10;

/// A generator of schemas with comments as descriptions.
pub(crate) struct SchemaWriter<'a> {
    comments: &'a TypeComments,
    /// The number of bytes that further comments may have.
    bytes_left: usize,
}

impl<'a> SchemaWriter<'a> {
    pub(crate) fn new(comments: &'a TypeComments) -> Self {
        Self {
            comments,
            bytes_left: MAX_COMMENT_BYTES,
        }
    }

    /// Returns the schema of values of this type.
    pub(crate) fn value(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Integer(integer) => integer_schema(*integer),
            Shape::Float32 | Shape::Float64 => {
                json!({"anyOf": [{"type": "number"}, {"type": "string", "enum": NOT_FINITE}]})
            }
            Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
            Shape::String => json!({"type": "string"}),
            Shape::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Shape::List(element) => json!({"type": "array", "items": self.value(element)}),
            Shape::Tuple(shapes) => {
                let items: Vec<Value> = shapes.iter().map(|shape| self.value(shape)).collect();
                json!({
                    "type": "array",
                    "prefixItems": items,
                    "minItems": shapes.len(),
                    "maxItems": shapes.len(),
                })
            }
            Shape::Record(fields) => Value::Object(self.record(shape, fields)),
            Shape::Variant(cases) => {
                let comments = self.comments;
                let cases = cases.iter().map(|(label, payload)| {
                    let comment = comments.item_comment(shape, label);
                    (&*label.json, payload.as_ref(), comment)
                });
                let schema = self.cases(cases);
                self.described(schema, comments.type_comment(shape))
            }
            Shape::Result(cases) => {
                let [ok, err] = &**cases;
                self.cases([("ok", ok.as_ref(), None), ("err", err.as_ref(), None)].into_iter())
            }
            Shape::Enum(labels) => {
                let schema = json!({"type": "string", "enum": names(labels)});
                self.described_labels(schema, shape, labels)
            }
            Shape::Flags(labels) => {
                let schema = json!({
                    "type": "array",
                    "items": {"type": "string", "enum": names(labels)},
                    "uniqueItems": true,
                    "maxItems": labels.len(),
                });
                self.described_labels(schema, shape, labels)
            }
            Shape::Option(shape) => nullable(self.some(shape)),
        }
    }

    /// Returns the schema of an object with exactly these properties. Options may be
    /// omitted.
    pub(crate) fn object(&mut self, fields: &[(Label, Shape)]) -> Map<String, Value> {
        self.properties(fields, |_| None)
    }

    /// Returns the schema of a record with these fields.
    pub(crate) fn record(
        &mut self,
        shape: &Shape,
        fields: &[(Label, Shape)],
    ) -> Map<String, Value> {
        let comments = self.comments;
        let mut schema = self.properties(fields, |label| comments.item_comment(shape, label));
        self.describe(&mut schema, comments.type_comment(shape));
        schema
    }

    fn properties(
        &mut self,
        fields: &[(Label, Shape)],
        comment: impl Fn(&Label) -> Option<&'a str>,
    ) -> Map<String, Value> {
        let properties: Map<String, Value> = fields
            .iter()
            .map(|(label, shape)| {
                let schema = self.value(shape);
                let schema = self.described(schema, comment(label));
                (label.json.clone(), schema)
            })
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

    /// Returns the schema of an option's value. A value that can be null itself is wrapped
    /// in an object.
    fn some(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Option(_) => single_property_schema("some", self.value(shape)),
            shape => self.value(shape),
        }
    }

    /// Returns the schema of cases with their comments. A case with a payload is an object
    /// with one property. Any other case is its name.
    fn cases<'c>(
        &mut self,
        cases: impl Iterator<Item = (&'c str, Option<&'c Shape>, Option<&'a str>)> + Clone,
    ) -> Value {
        let without_payload = cases.clone().filter(|(_, payload, _)| payload.is_none());
        let names: Vec<&str> = without_payload.clone().map(|(name, ..)| name).collect();
        let with_payload =
            cases.filter_map(|(name, payload, comment)| Some((name, payload?, comment)));
        let mut choices: Vec<Value> = with_payload
            .map(|(name, payload, comment)| {
                let schema = self.value(payload);
                single_property_schema(name, self.described(schema, comment))
            })
            .collect();
        if !names.is_empty() {
            let mut schema = json!({"type": "string", "enum": names});
            for (name, _, comment) in without_payload {
                schema = self.described_choice(schema, name, comment);
            }
            choices.push(schema);
        }
        match choices.len() {
            1 => choices.remove(0),
            _ => json!({"anyOf": choices}),
        }
    }

    /// Adds the comments on an enumeration or flags, and on each of its names.
    fn described_labels(&mut self, schema: Value, shape: &Shape, labels: &[Label]) -> Value {
        let comments = self.comments;
        let schema = self.described(schema, comments.type_comment(shape));
        labels.iter().fold(schema, |schema, label| {
            self.described_choice(schema, &label.json, comments.item_comment(shape, label))
        })
    }

    /// Adds the comment on one of several names, after that name.
    fn described_choice(&mut self, schema: Value, name: &str, comment: Option<&str>) -> Value {
        let comment = comment.map(|comment| format!("{name}: {comment}"));
        self.described(schema, comment.as_deref())
    }

    fn described(&mut self, mut schema: Value, comment: Option<&str>) -> Value {
        if let Value::Object(schema) = &mut schema {
            self.describe(schema, comment);
        }
        schema
    }

    /// Adds a comment to the description of a schema, if the budget allows it.
    fn describe(&mut self, schema: &mut Map<String, Value>, comment: Option<&str>) {
        let Some(comment) = comment else {
            return;
        };
        let comment = &*join_lines(comment);
        let Some(bytes_left) = self.bytes_left.checked_sub(comment.len()) else {
            return;
        };
        self.bytes_left = bytes_left;
        let before = schema.get("description").and_then(Value::as_str);
        let text = match before {
            Some(before) => format!("{before}\n{comment}"),
            None => comment.to_owned(),
        };
        schema.insert("description".to_owned(), text.into());
    }
}

/// Returns the schema of an integer. A 64-bit integer is a number up to [`MAX_EXACT`], and a
/// string of digits beyond.
fn integer_schema(integer: Integer) -> Value {
    let (min, max) = integer.range();
    let number = |min: i128, max: i128| {
        let (min, max) = (as_number(min), as_number(max));
        json!({"type": "integer", "minimum": min, "maximum": max})
    };
    if max <= MAX_EXACT {
        return number(min, max);
    }
    let digits = if min < 0 {
        "^-?[0-9]{1,19}$"
    } else {
        "^[0-9]{1,20}$"
    };
    json!({"anyOf": [
        number(min.max(-MAX_EXACT), MAX_EXACT),
        {"type": "string", "pattern": digits},
    ]})
}

/// Returns a number of at most 2^53 as JSON.
fn as_number(number: i128) -> Value {
    i64::try_from(number).map_or(Value::Null, Value::from)
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
