//! The definitions of a built component, checked for what a host would refuse beside its
//! own tools, and for slips in schemas that no host can see. What any host refuses of a
//! component by itself is in the crate `skillhost`.

use serde_json::{Map, Value};
use skillhost::Definition;
use skillhost::internal::built_in_names;

use super::Fault;

/// The keywords of JSON Schema, and those that OpenAPI adds.
const KEYWORDS: [&str; 62] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "discriminator",
    "else",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "propertyOrdering",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

/// Keywords whose value is a schema, or an array of schemas.
const SCHEMAS: [&str; 16] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is an object of schemas.
const NAMED_SCHEMAS: [&str; 5] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

/// Letters that a slip of a keyword has wrong at most, and the letters of a keyword that
/// may have so many.
const SLIPS: [(usize, usize); 2] = [(1, 4), (2, 7)];

/// Checks the definitions of a project's tools. `source` is the file that has them.
pub(super) fn check(tools: &[Definition], source: &str) -> Result<(), Fault> {
    let fault = |message: String| {
        Err(Fault::project(message).fix(format!("correct it in `{source}`; `dist` is unchanged")))
    };
    for (at, tool) in tools.iter().enumerate() {
        let name = &tool.name;
        if built_in_names().any(|built_in| built_in == name) {
            return fault(format!(
                "the tool `{name}` has the name of a built-in tool, and no host would load it; give \
                 it another name"
            ));
        }
        if tools[..at].iter().any(|other| other.name == *name) {
            return fault(format!("two tools have the name `{name}`"));
        }
        let output = tool.output_schema.as_ref();
        let schemas = [("input", Some(&tool.input_schema)), ("output", output)];
        for (kind, schema) in schemas {
            if let Some(schema) = schema
                && let Err(why) = check_object(schema, kind == "input", "")
            {
                return fault(format!("in the {kind} schema of the tool `{name}`{why}"));
            }
        }
    }
    Ok(())
}

/// Checks a schema. The error says where in it the slip is. `is_arguments` is true for the
/// schema of all arguments, which is closed unless it says otherwise.
fn check_object(schema: &Map<String, Value>, is_arguments: bool, path: &str) -> Result<(), String> {
    let place = match path {
        "" => String::new(),
        path => format!(", at `{path}`"),
    };
    for keyword in schema.keys() {
        if let Some(meant) = meant(keyword) {
            return Err(format!(
                "{place}: `{keyword}` is no keyword of JSON Schema; did you mean `{meant}`?"
            ));
        }
    }
    if let Some(missing) = required_without_property(schema, is_arguments) {
        return Err(format!(
            "{place}: `required` names `{missing}`, which is not in `properties`, so no call could \
             fit"
        ));
    }
    let inside = |keyword: &str| match path {
        "" => keyword.to_owned(),
        path => format!("{path}.{keyword}"),
    };
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        if SCHEMAS.contains(&keyword) {
            let several = value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            for schema in several.iter().filter_map(Value::as_object) {
                check_object(schema, false, &inside(keyword))?;
            }
        }
        if NAMED_SCHEMAS.contains(&keyword) {
            let named = value.as_object().into_iter().flatten();
            for (name, schema) in named {
                if let Some(schema) = schema.as_object() {
                    check_object(schema, false, &inside(&format!("{keyword}.{name}")))?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the keyword that a slip of it stands for.
fn meant(word: &str) -> Option<&'static str> {
    if KEYWORDS.contains(&word) || word.starts_with("x-") {
        return None;
    }
    let plain = |word: &str| word.replace(['_', '-'], "").to_lowercase();
    let distance = |keyword: &&str| strsim::osa_distance(&plain(word), &plain(keyword));
    let nearest = KEYWORDS.iter().min_by_key(|keyword| distance(keyword))?;
    let is_slip = |(slips, letters): &(usize, usize)| {
        distance(nearest) <= *slips && nearest.len() >= *letters
    };
    (distance(nearest) == 0 || SLIPS.iter().any(is_slip)).then_some(*nearest)
}

/// Returns a required property that the schema refuses.
fn required_without_property(schema: &Map<String, Value>, is_arguments: bool) -> Option<&str> {
    let closed = match schema.get("additionalProperties") {
        // An object within is open, and still nobody means that.
        None => is_arguments || schema.contains_key("properties"),
        Some(more) => *more == Value::Bool(false),
    };
    if !closed || schema.contains_key("patternProperties") {
        return None;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required")?.as_array()?;
    let mut required = required.iter().filter_map(Value::as_str);
    required.find(|name| !properties.is_some_and(|properties| properties.contains_key(*name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(schema: Value) -> Result<(), String> {
        check_object(schema.as_object().unwrap(), true, "")
    }

    #[test]
    fn names_the_place_of_a_slip_in_a_schema() {
        for (schema, why) in [
            (
                json!({"propertys": {}}),
                ": `propertys` is no keyword of JSON Schema; did you mean `properties`?",
            ),
            (
                json!({"additional_properties": false}),
                ": `additional_properties` is no keyword of JSON Schema; did you mean `additionalProperties`?",
            ),
            (
                json!({"properties": {"a": {"descripton": "x"}}}),
                ", at `properties.a`: `descripton` is no keyword of JSON Schema; did you mean `description`?",
            ),
            (
                json!({"properties": {"a": {"items": {"anyOf": [{"minimun": 1}]}}}}),
                ", at `properties.a.items.anyOf`: `minimun` is no keyword of JSON Schema; did you mean `minimum`?",
            ),
            (
                json!({"required": ["a"]}),
                ": `required` names `a`, which is not in `properties`, so no call could fit",
            ),
            (
                json!({"properties": {"a": {"properties": {"b": {}}, "required": ["c"]}}}),
                ", at `properties.a`: `required` names `c`, which is not in `properties`, so no call could fit",
            ),
        ] {
            assert_eq!(checked(schema.clone()).unwrap_err(), why, "{schema}");
        }
    }

    #[test]
    fn accepts_schemas_without_a_slip() {
        for schema in [
            json!({}),
            json!({"type": "object", "properties": {"required": {"type": "string"}, "minimun": {}}, "required": ["required"]}),
            // Annotations of one's own.
            json!({"x-minimun": 1, "notes": 1, "properties": {"a": {"unit": "m", "default": {"typ": 1}, "enum": [{"typ": 1}]}}}),
            json!({"required": ["a"], "additionalProperties": true}),
            json!({"required": ["a"], "patternProperties": {"^a": {}}}),
            // A choice of required properties, whose schemas stand around it.
            json!({"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ] {
            assert_eq!(checked(schema.clone()), Ok(()), "{schema}");
        }
    }

    #[test]
    fn a_keyword_is_no_slip_of_another() {
        for keyword in KEYWORDS {
            assert_eq!(meant(keyword), None, "{keyword}");
        }
        assert!(KEYWORDS.is_sorted());
    }

    /// What the kits and the built-in tools say of themselves has no slip.
    #[test]
    fn accepts_the_definitions_of_built_in_tools_under_other_names() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sandbox/components");
        let mut checked = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|found| found != "json") {
                continue;
            }
            let definitions: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            for definition in definitions.as_array().unwrap() {
                let schema = definition["input_schema"].as_object().unwrap();
                assert_eq!(check_object(schema, true, ""), Ok(()), "{definition}");
                checked += 1;
            }
        }
        assert!(checked > 6);
    }
}
