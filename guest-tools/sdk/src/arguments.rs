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

/// Reads arguments. The host has checked them against the schema, so what
/// fails here is what a schema cannot say, such as a number out of range.
pub(crate) fn parse<A: DeserializeOwned>(json: &str) -> Result<A, Failure> {
    serde_json::from_str(json)
        .map_err(|error| Failure::invalid_arguments(format!("Invalid arguments: {error}")))
}

/// The JSON Schema of `A`, in the plain form that model APIs take: no schema
/// URL, no Rust names, no integer formats, and `null` nowhere (the host drops
/// a null that stands for an absent property). Properties stand in the order of
/// the struct's fields.
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
    to_json(&InOrder {
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
            if let [only] = types.as_slice() {
                let only = only.clone();
                property.insert("type".to_owned(), only);
            }
        }
    }
}

/// A schema as it is written: `type` and `properties` first.
struct InOrder<'a> {
    schema: &'a Map<String, Value>,
    fields: &'static [&'static str],
}

/// Its properties, those that are fields in the fields' order.
struct Properties<'a>(&'a InOrder<'a>);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(kind) = self.schema.get("type") {
            map.serialize_entry("type", kind)?;
        }
        // Model APIs want the key, and Rust a struct without fields has none.
        map.serialize_entry("properties", &Properties(self))?;
        for (key, value) in self.schema {
            if !matches!(key.as_str(), "type" | "properties") {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let InOrder { schema, fields } = self.0;
        let mut map = serializer.serialize_map(None)?;
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&none);
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
