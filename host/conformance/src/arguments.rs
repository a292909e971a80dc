//! Checks of arguments: valid ones, invalid ones, and null in place of an absent property.

use serde_json::{Map, Value, json};

use super::report::{Outcome, Recorder, Rule};
use super::sample;
use super::trial::{Trial, use_scratch_skill};
use super::wording::{CallResult, describe, quoted};
use skillhost::{CallError, Definition};
use skillhost_sandbox::tool::arguments::check_arguments;

pub(super) const RULES: &[Rule] = &[FIT, MISSING, TYPE, UNKNOWN, NULL];

const FIT: Rule = Rule {
    id: "arguments-fit",
    sentence: "the schema accepts some arguments",
};
const MISSING: Rule = Rule {
    id: "missing-refused",
    sentence: "a call without a required property is refused",
};
const TYPE: Rule = Rule {
    id: "type-refused",
    sentence: "a value of the wrong type is refused",
};
const UNKNOWN: Rule = Rule {
    id: "unknown-refused",
    sentence: "an unknown property is refused",
};
const NULL: Rule = Rule {
    id: "null-is-absent",
    sentence: "null for an optional property means that it is absent",
};

/// The name of a property that no schema defines.
const UNKNOWN_PROPERTY: &str = "skillhost_test_unknown";

/// Returns valid arguments for the scratch skill, and records whether any were found.
///
/// Takes them from the author's first case that expects an answer and has valid arguments. Without
/// such a case, makes arguments from the schema.
pub(super) async fn find_sample<'a>(
    recorder: &mut Recorder,
    tool: &Definition,
    examples: impl Iterator<Item = &'a Map<String, Value>>,
) -> Option<Map<String, Value>> {
    let schema = &tool.input_schema;
    let checked = |mut arguments: Map<String, Value>| {
        use_scratch_skill(tool.folder.as_ref(), &mut arguments);
        match check_arguments(schema, arguments.clone().into()) {
            Ok(Ok(_)) => Ok(arguments),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    };
    let from_case = examples.cloned().find_map(|example| checked(example).ok());
    let sample = match from_case {
        Some(arguments) => Ok(arguments),
        None => checked(sample::arguments(schema)),
    };
    let outcome = match (&sample, undefined_property(schema)) {
        (Ok(_), _) => Outcome::Passed,
        (Err(_), Some(name)) => Outcome::failed(
            format!(
                "it requires the property {}, which `properties` does not define",
                quoted(name)
            ),
            "add it to `properties`, or remove it from `required`",
        ),
        (Err(error), None) => Outcome::skipped(
            format!("no valid arguments could be made: {error}"),
            "write a case that expects an answer; the run then uses the case's arguments",
        ),
    };
    let name = Some(&*tool.name);
    recorder.check(&FIT, name, async { outcome }).await;
    sample.ok()
}

/// Returns a required property that the schema does not define, so that no call is valid.
fn undefined_property(schema: &Map<String, Value>) -> Option<&str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array)?;
    let mut required = required.iter().filter_map(Value::as_str);
    required.find(|name| !properties.is_some_and(|properties| properties.contains_key(*name)))
}

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    let name = Some(trial.name());
    recorder
        .check(&MISSING, name, missing_property(trial))
        .await;
    recorder.check(&TYPE, name, wrong_type(trial)).await;
    recorder
        .check(&UNKNOWN, name, unknown_property(trial))
        .await;
    recorder.check(&NULL, name, null_property(trial)).await;
}

async fn missing_property(trial: &Trial<'_>) -> Outcome {
    let schema = &trial.tool.input_schema;
    let required: Vec<&str> = strings(schema, "required").collect();
    if required.is_empty() {
        return Outcome::skipped("it requires no property", "");
    }
    for name in required {
        let mut arguments = trial.sample.clone();
        arguments.remove(name);
        if let Some(failed) =
            wrongly_accepted(trial.call(arguments).await, &format!("without `{name}`"))
        {
            return failed;
        }
    }
    Outcome::Passed
}

async fn wrong_type(trial: &Trial<'_>) -> Outcome {
    let properties = properties(trial);
    if properties.is_empty() {
        return Outcome::skipped("it has no property", "");
    }
    let mut checked = 0;
    for (name, schema) in properties {
        let Some(wrong) = value_of_wrong_type(schema) else {
            continue;
        };
        let mut arguments = trial.sample.clone();
        let what = format!("with {wrong} as `{name}`");
        arguments.insert(name.clone(), wrong);
        if let Some(failed) = wrongly_accepted(trial.call(arguments).await, &what) {
            return failed;
        }
        checked += 1;
    }
    if checked == 0 {
        return Outcome::skipped(
            "no property has a type",
            "give each property a `type`, so that a model knows what to write",
        );
    }
    Outcome::Passed
}

async fn unknown_property(trial: &Trial<'_>) -> Outcome {
    let schema = &trial.tool.input_schema;
    let additional = schema.get("additionalProperties");
    if additional.is_some_and(|additional| additional != false)
        || schema.contains_key("patternProperties")
    {
        return Outcome::skipped("its schema allows unknown properties", "");
    }
    let mut arguments = trial.sample.clone();
    arguments.insert(UNKNOWN_PROPERTY.to_owned(), 1.into());
    wrongly_accepted(trial.call(arguments).await, "with an unknown property")
        .unwrap_or(Outcome::Passed)
}

async fn null_property(trial: &Trial<'_>) -> Outcome {
    let schema = &trial.tool.input_schema;
    let optional: Vec<&String> = properties(trial)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| strings(schema, "required").all(|required| required != name.as_str()))
        .collect();
    if optional.is_empty() {
        return Outcome::skipped("it has no optional property", "");
    }
    for name in optional {
        let mut arguments = trial.sample.clone();
        arguments.remove(name);
        let absent = trial.call(arguments.clone()).await;
        arguments.insert(name.clone(), Value::Null);
        let null = trial.call(arguments).await;
        if absent != null {
            return Outcome::failed(
                format!(
                    "without `{name}` {}, but with null {}",
                    describe(&absent),
                    describe(&null)
                ),
                "treat null as an absent property, because models write either",
            );
        }
    }
    Outcome::Passed
}

/// Returns a failed outcome unless the host refused the arguments of a call.
fn wrongly_accepted(result: CallResult, context: &str) -> Option<Outcome> {
    match result {
        Err(CallError::Arguments(_)) => None,
        result => Some(Outcome::failed(
            format!("{context}, {}", describe(&result)),
            "let the schema define exactly the arguments that the tool accepts",
        )),
    }
}

/// Returns a value of a type that the schema does not allow. Returns `None` if the schema has no
/// `type`, or allows objects, arrays, booleans and strings.
fn value_of_wrong_type(schema: &Value) -> Option<Value> {
    let kinds: Vec<&str> = match schema.get("type")? {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let candidates = [
        ("object", json!({})),
        ("array", json!([])),
        ("boolean", json!(true)),
        ("string", json!("a")),
    ];
    let mut candidates = candidates.into_iter();
    candidates
        .find(|(kind, _)| !kinds.contains(kind))
        .map(|(_, value)| value)
}

fn properties<'a>(trial: &'a Trial<'_>) -> Vec<(&'a String, &'a Value)> {
    let properties = trial.tool.input_schema.get("properties");
    let properties = properties.and_then(Value::as_object);
    properties.into_iter().flatten().collect()
}

fn strings<'a>(schema: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> {
    let strings = schema.get(key).and_then(Value::as_array);
    strings.into_iter().flatten().filter_map(Value::as_str)
}
