//! Checks arguments against a tool's schema. The input is the schema, a NUL, and the arguments.
//!
//! For any schema, the check ends and its message is short. Accepted arguments are accepted again
//! unchanged, and a validator accepts them too. A model predicts the result for schemas that have
//! only types and names.

use jsonschema::PatternOptions;
use serde_json::{Map, Value};
use skillhost::{CallError, parse_arguments};
use skillhost_sandbox::tool::arguments::check_arguments;

/// The maximum length of a message, in characters. A longer one would flood the answer.
const LONGEST_MESSAGE: usize = 1000;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (schema, arguments) = text.split_once('\0').unwrap_or((&text, ""));
    let arguments = match parse_arguments(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return check_refusal(&error, &text),
    };
    let Ok(Value::Object(schema)) = serde_json::from_str(schema) else {
        return;
    };
    let Ok(checked) = check_arguments(&schema, arguments.clone()) else {
        return;
    };
    if let Some(expected) = expected(&schema, &arguments) {
        assert_eq!(checked.is_ok(), expected, "{checked:?}: {text:?}");
    }
    match checked {
        Err(error) => check_refusal(&error, &text),
        Ok(checked) => check_accepted(&schema, &arguments, checked, &text),
    }
}

fn check_refusal(error: &CallError, text: &str) {
    let CallError::Arguments(message) = error else {
        panic!("{error:?}: {text:?}");
    };
    let length = message.chars().count();
    assert!(
        (1..=LONGEST_MESSAGE).contains(&length),
        "{message:?}: {text:?}"
    );
}

fn check_accepted(
    schema: &Map<String, Value>,
    given: &Value,
    checked: Map<String, Value>,
    text: &str,
) {
    for (name, value) in &checked {
        assert!(same(&given[name], value), "{name} {value}: {text:?}");
    }
    for name in names(schema.get("required")) {
        assert!(checked.contains_key(name), "{name}: {text:?}");
    }
    let checked = Value::Object(checked);
    assert!(is_valid(schema, &checked), "{checked}: {text:?}");
    let again = check_arguments(schema, checked.clone()).unwrap();
    assert_eq!(again.map(Value::Object), Ok(checked), "{text:?}");
}

/// Returns whether a validator accepts arguments, whatever type the schema declares.
fn is_valid(schema: &Map<String, Value>, arguments: &Value) -> bool {
    let mut schema = schema.clone();
    schema.insert("type".to_owned(), "object".into());
    let validator = jsonschema::draft202012::options()
        .with_pattern_options(PatternOptions::regex())
        .build(&schema.into());
    validator.unwrap().is_valid(arguments)
}

/// Returns whether two values are equal. Ignores different forms of a whole number, such as `1.0`,
/// and nulls that count as absent.
fn same(given: &Value, checked: &Value) -> bool {
    match (given, checked) {
        (Value::Number(given), Value::Number(checked)) => {
            given == checked || given.as_f64() == checked.as_f64()
        }
        (Value::Array(given), Value::Array(checked)) => {
            given.len() == checked.len() && given.iter().zip(checked).all(|(a, b)| same(a, b))
        }
        (Value::Object(given), Value::Object(checked)) => {
            let known = checked.keys().all(|name| given.contains_key(name));
            let same_field = |(name, value): (&String, &Value)| match checked.get(name) {
                Some(checked) => same(value, checked),
                None => value.is_null(),
            };
            known && given.iter().all(same_field)
        }
        (given, checked) => given == checked,
    }
}

/// Returns whether arguments fit a schema that has only types and names, or `None` if the schema
/// has other keywords.
fn expected(schema: &Map<String, Value>, arguments: &Value) -> Option<bool> {
    const ANNOTATIONS: [&str; 5] = ["$schema", "title", "description", "default", "examples"];
    const KEYWORDS: [&str; 4] = ["type", "properties", "required", "additionalProperties"];

    let known = |object: &Map<String, Value>, keys: &[&str]| {
        let mut names = object.keys().map(String::as_str);
        names.all(|key| ANNOTATIONS.contains(&key) || keys.contains(&key))
    };
    let additional = schema
        .get("additionalProperties")
        .unwrap_or(&Value::Bool(false));
    if !known(schema, &KEYWORDS) || *additional != false || count_values(arguments) > 1000 {
        return None;
    }
    let nothing = Map::new();
    let properties = match schema.get("properties") {
        None => &nothing,
        Some(properties) => properties.as_object()?,
    };
    for property in properties.values() {
        let property = property.as_object()?;
        if !known(property, &["type"]) || property.get("type").is_some_and(|kind| !kind.is_string())
        {
            return None;
        }
    }
    let Some(arguments) = arguments.as_object() else {
        return Some(false);
    };
    let kind = |name: &str| properties.get(name)?.get("type")?.as_str();
    let required: Vec<&str> = names(schema.get("required")).collect();
    // A null for an optional property counts as absent, unless the schema allows null.
    let present = |name: &str| {
        let value = arguments.get(name)?;
        let is_absent = value.is_null() && !required.contains(&name) && kind(name) != Some("null");
        (!is_absent).then_some(value)
    };
    let all_present = required.iter().all(|name| present(name).is_some());
    let all_fit = arguments
        .keys()
        .filter_map(|name| Some((name, present(name)?)))
        .all(|(name, value)| {
            properties.contains_key(name) && kind(name).is_none_or(|kind| has_type(kind, value))
        });
    Some(all_present && all_fit)
}

fn names(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn has_type(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

fn count_values(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count_values).sum(),
        Value::Object(object) => object.values().map(count_values).sum::<usize>(),
        _ => 0,
    }
}
