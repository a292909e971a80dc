//! Plain properties: their schemas require only a type, so checking them needs no validator.

use serde_json::{Map, Value};

/// The plain properties of a schema that has no other rules.
pub(super) struct PlainProperties(Vec<(String, PlainType)>);

/// A type that can be checked without a validator.
#[derive(Clone, Copy)]
enum PlainType {
    Text,
    Integer,
    Boolean,
}

/// Keywords that restrict no value.
const ANNOTATIONS: [&str; 5] = ["$schema", "title", "description", "default", "examples"];

/// Keywords of an object's schema that can be checked without a validator.
const OBJECT_KEYWORDS: [&str; 4] = ["type", "properties", "required", "additionalProperties"];

impl PlainProperties {
    /// Returns the plain properties of a schema, or `None` if another keyword adds rules.
    pub(super) fn of(schema: &Map<String, Value>) -> Option<Self> {
        if !has_only(schema, &OBJECT_KEYWORDS) {
            return None;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let to_plain = |(name, schema): (&String, &Value)| {
            let schema = schema.as_object()?;
            let plain_type = match schema.get("type")?.as_str()? {
                "string" => PlainType::Text,
                "integer" => PlainType::Integer,
                "boolean" => PlainType::Boolean,
                _ => return None,
            };
            has_only(schema, &["type"]).then(|| (name.clone(), plain_type))
        };
        let plain = properties.into_iter().flatten().filter_map(to_plain);
        Some(Self(plain.collect()))
    }

    /// Returns whether all arguments are plain properties with the right type. If not, the
    /// validator decides.
    pub(super) fn fit(&self, arguments: &Map<String, Value>) -> bool {
        arguments.iter().all(|(name, value)| {
            let plain = self.0.iter().find(|(property, _)| property == name);
            plain.is_some_and(|(_, plain)| match plain {
                PlainType::Text => value.is_string(),
                PlainType::Integer => value.is_i64() || value.is_u64(),
                PlainType::Boolean => value.is_boolean(),
            })
        })
    }
}

/// Returns whether a schema has only these keywords, besides annotations.
fn has_only(schema: &Map<String, Value>, keywords: &[&str]) -> bool {
    let mut present = schema.keys().map(String::as_str);
    present.all(|keyword| ANNOTATIONS.contains(&keyword) || keywords.contains(&keyword))
}
