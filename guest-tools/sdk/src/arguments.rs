//! Typed arguments: from JSON to a struct, and from a struct to JSON Schema.

mod fields;

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use crate::Failure;
use crate::output::to_json;

/// Declares the struct that a tool's arguments are read into. Fields and their
/// doc comments become the JSON Schema that the model reads; an `Option` field
/// is optional.
#[macro_export]
macro_rules! arguments {
    ($item:item) => {
        #[derive($crate::serde::Deserialize, $crate::schemars::JsonSchema)]
        #[serde(crate = "skillhost_guest::serde")]
        #[schemars(crate = "skillhost_guest::schemars")]
        $item
    };
}

/// Declares a struct that a program reads, as JSON: the record of an
/// [`Output`](crate::Output) or a [`Failure`](crate::Failure).
#[macro_export]
macro_rules! record {
    ($item:item) => {
        #[derive($crate::serde::Serialize)]
        #[serde(crate = "skillhost_guest::serde")]
        $item
    };
}

/// Reads arguments. The host has checked them against the schema, so this fails
/// only for rules that a schema cannot express, such as the range of an integer type.
pub(crate) fn parse<A: DeserializeOwned>(json: &str) -> Result<A, Failure> {
    serde_json::from_str(json)
        .map_err(|error| Failure::invalid_arguments(format!("Invalid arguments: {error}")))
}

/// Returns the JSON Schema of `A` in the form that model APIs accept: without a schema
/// URL, Rust names, integer formats and `null`. The properties have the order of the
/// struct's fields.
///
/// `null` is not needed, because the host drops a property whose value is null.
pub(crate) fn schema<A: JsonSchema + DeserializeOwned>() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema: Schema = settings.into_generator().into_root_schema_for::<A>();
    let mut schema = match Value::from(schema) {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    schema.remove("title");
    schema.remove("description");
    simplify_properties(&mut schema);
    to_json(&OrderedSchema {
        schema: &schema,
        fields: fields::of::<A>(),
    })
}

fn simplify_properties(object: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = object.get_mut("properties") else {
        return;
    };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        if property.get("default") == Some(&Value::Null) {
            property.remove("default");
        }
        let format = property.get("format").and_then(Value::as_str);
        if format.is_some_and(|format| format.contains("int")) {
            property.remove("format");
        }
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [kind] = types.as_slice() {
                let kind = kind.clone();
                property.insert("type".to_owned(), kind);
            }
        }
    }
}

/// Serializes a schema with `type` and `properties` first.
struct OrderedSchema<'a> {
    schema: &'a Map<String, Value>,
    fields: &'static [&'static str],
}

/// Serializes a schema's properties: fields in their order, then the others.
struct OrderedProperties<'a>(&'a OrderedSchema<'a>);

impl Serialize for OrderedSchema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(kind) = self.schema.get("type") {
            map.serialize_entry("type", kind)?;
        }
        // Model APIs require the key. schemars leaves it out for a struct without fields.
        map.serialize_entry("properties", &OrderedProperties(self))?;
        for (key, value) in self.schema {
            if !matches!(key.as_str(), "type" | "properties") {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

impl Serialize for OrderedProperties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OrderedSchema { schema, fields } = self.0;
        let mut map = serializer.serialize_map(None)?;
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&empty);
        let named = fields.iter().filter_map(|field| {
            let (name, property) = properties.get_key_value(*field)?;
            Some((name, property))
        });
        let others = properties
            .iter()
            .filter(|(name, _)| !fields.contains(&name.as_str()));
        for (name, property) in named.chain(others) {
            map.serialize_entry(name, property)?;
        }
        map.end()
    }
}
