//! Typed arguments: from JSON to a struct, and from a struct to JSON Schema.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::Failure;

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
/// a null that stands for an absent property).
pub(crate) fn schema<A: JsonSchema>() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema: Schema = settings.into_generator().into_root_schema_for::<A>();
    let mut schema = Value::from(schema);
    if let Some(object) = schema.as_object_mut() {
        object.shift_remove("title");
        object.shift_remove("description");
        // Model APIs want the key, and Rust a struct without fields has none.
        object
            .entry("properties")
            .or_insert_with(|| Map::new().into());
        simplify_properties(object);
    }
    schema.to_string()
}

fn simplify_properties(object: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = object.get_mut("properties") else {
        return;
    };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        if property.get("default") == Some(&Value::Null) {
            property.shift_remove("default");
        }
        let format = property.get("format").and_then(Value::as_str);
        if format.is_some_and(|format| format.contains("int")) {
            property.shift_remove("format");
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
