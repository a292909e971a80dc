//! Checks the definitions of a built component for conflicts with built-in tools, and for
//! mistakes in schemas that no host reports. The crate `skillhost` has the checks that every
//! host makes.

use serde_json::{Map, Value};
use skillhost::Definition;
use skillhost_sandbox::component::embedded;

use super::BuildError;

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

/// Pairs of a maximum number of wrong letters and the minimum length of a keyword that may have
/// them.
const MAX_TYPOS: [(usize, usize); 2] = [(1, 4), (2, 7)];

/// Checks the definitions of a project's tools. `source` is the file that defines them.
pub(super) fn check(tools: &[Definition], source: &str) -> Result<(), BuildError> {
    let error = |message: String| {
        Err(BuildError::project(message)
            .fix(format!("correct it in `{source}`; `dist` is unchanged")))
    };
    for (index, tool) in tools.iter().enumerate() {
        let name = &tool.name;
        if embedded::names().any(|built_in| built_in == name) {
            return error(format!(
                "the tool `{name}` has the name of a built-in tool, and no host would load it; give \
                 it another name"
            ));
        }
        if tools[..index].iter().any(|other| other.name == *name) {
            return error(format!("two tools have the name `{name}`"));
        }
        let output = tool.output_schema.as_ref();
        let schemas = [("input", Some(&tool.input_schema)), ("output", output)];
        for (kind, schema) in schemas {
            if let Some(schema) = schema
                && let Err(reason) = check_schema(schema, kind == "input", "")
            {
                return error(format!("in the {kind} schema of the tool `{name}`{reason}"));
            }
        }
    }
    Ok(())
}

/// Checks a schema and the schemas in it. The error gives the path of the mistake.
///
/// `is_arguments` is true for the schema of all arguments, which by default allows no additional
/// properties.
fn check_schema(schema: &Map<String, Value>, is_arguments: bool, path: &str) -> Result<(), String> {
    let location = match path {
        "" => String::new(),
        path => format!(", at `{path}`"),
    };
    for keyword in schema.keys() {
        if let Some(suggestion) = suggest_keyword(keyword) {
            return Err(format!(
                "{location}: `{keyword}` is not a keyword of JSON Schema; did you mean \
                 `{suggestion}`?"
            ));
        }
    }
    if let Some(missing) = required_without_property(schema, is_arguments) {
        return Err(format!(
            "{location}: `required` names `{missing}`, which is not in `properties`, so no call could \
             match"
        ));
    }
    let nested_path = |keyword: &str| match path {
        "" => keyword.to_owned(),
        path => format!("{path}.{keyword}"),
    };
    for (keyword, value) in schema {
        let keyword = keyword.as_str();
        if SCHEMAS.contains(&keyword) {
            let schemas = value
                .as_array()
                .map_or(std::slice::from_ref(value), Vec::as_slice);
            for schema in schemas.iter().filter_map(Value::as_object) {
                check_schema(schema, false, &nested_path(keyword))?;
            }
        }
        if NAMED_SCHEMAS.contains(&keyword) {
            for (name, schema) in value.as_object().into_iter().flatten() {
                if let Some(schema) = schema.as_object() {
                    check_schema(schema, false, &nested_path(&format!("{keyword}.{name}")))?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the keyword that a misspelled word stands for, if any.
fn suggest_keyword(word: &str) -> Option<&'static str> {
    if KEYWORDS.contains(&word) || word.starts_with("x-") {
        return None;
    }
    let normalized = |word: &str| word.replace(['_', '-'], "").to_lowercase();
    let distance = |keyword: &&str| strsim::osa_distance(&normalized(word), &normalized(keyword));
    let nearest = KEYWORDS.iter().min_by_key(|keyword| distance(keyword))?;
    let is_typo = |(max_typos, min_length): &(usize, usize)| {
        distance(nearest) <= *max_typos && nearest.len() >= *min_length
    };
    (distance(nearest) == 0 || MAX_TYPOS.iter().any(is_typo)).then_some(*nearest)
}

/// Returns a property that the schema both requires and forbids.
fn required_without_property(schema: &Map<String, Value>, is_arguments: bool) -> Option<&str> {
    let is_closed = match schema.get("additionalProperties") {
        // A nested object allows additional properties. But if it lists properties, it should
        // list the required ones.
        None => is_arguments || schema.contains_key("properties"),
        Some(additional) => *additional == Value::Bool(false),
    };
    if !is_closed || schema.contains_key("patternProperties") {
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
        check_schema(schema.as_object().unwrap(), true, "")
    }

    #[test]
    fn names_path_of_mistake_in_schema() {
        for (schema, why) in [
            (
                json!({"propertys": {}}),
                ": `propertys` is not a keyword of JSON Schema; did you mean `properties`?",
            ),
            (
                json!({"additional_properties": false}),
                ": `additional_properties` is not a keyword of JSON Schema; did you mean `additionalProperties`?",
            ),
            (
                json!({"properties": {"a": {"descripton": "x"}}}),
                ", at `properties.a`: `descripton` is not a keyword of JSON Schema; did you mean `description`?",
            ),
            (
                json!({"properties": {"a": {"items": {"anyOf": [{"minimun": 1}]}}}}),
                ", at `properties.a.items.anyOf`: `minimun` is not a keyword of JSON Schema; did you mean `minimum`?",
            ),
            (
                json!({"required": ["a"]}),
                ": `required` names `a`, which is not in `properties`, so no call could match",
            ),
            (
                json!({"properties": {"a": {"properties": {"b": {}}, "required": ["c"]}}}),
                ", at `properties.a`: `required` names `c`, which is not in `properties`, so no call could match",
            ),
        ] {
            assert_eq!(checked(schema.clone()).unwrap_err(), why, "{schema}");
        }
    }

    #[test]
    fn accepts_correct_schemas() {
        for schema in [
            json!({}),
            json!({"type": "object", "properties": {"required": {"type": "string"}, "minimun": {}}, "required": ["required"]}),
            // Custom annotations.
            json!({"x-minimun": 1, "notes": 1, "properties": {"a": {"unit": "m", "default": {"typ": 1}, "enum": [{"typ": 1}]}}}),
            json!({"required": ["a"], "additionalProperties": true}),
            json!({"required": ["a"], "patternProperties": {"^a": {}}}),
            // Alternatives of required properties, which the outer schema defines.
            json!({"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        ] {
            assert_eq!(checked(schema.clone()), Ok(()), "{schema}");
        }
    }

    #[test]
    fn accepts_every_keyword() {
        for keyword in KEYWORDS {
            assert_eq!(suggest_keyword(keyword), None, "{keyword}");
        }
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn accepts_schemas_of_built_in_tools() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sandbox/components");
        let mut checked = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let definitions: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            for definition in definitions.as_array().unwrap() {
                let schema = definition["input_schema"].as_object().unwrap();
                assert_eq!(check_schema(schema, true, ""), Ok(()), "{definition}");
                checked += 1;
            }
        }
        assert!(checked > 6);
    }
}
