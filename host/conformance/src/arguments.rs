//! Arguments: valid ones, those that the schema must refuse, and null for an
//! absent property.

use serde_json::{Map, Value, json};

use super::report::{Outcome, Recorder, Rule};
use super::sample;
use super::trial::{Trial, point_at_scratch};
use super::wording::{TrialResult, describe, quoted};
use skillhost::internal::check_arguments;
use skillhost::{CallError, Definition};

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

/// A property that no schema has.
const UNKNOWN_PROPERTY: &str = "skillhost_test_unknown";

/// Returns arguments for the scratch skill: those of an author's case that expects
/// an answer, or arguments made from the schema.
pub(super) async fn sample<'a>(
    recorder: &mut Recorder,
    tool: &Definition,
    examples: impl Iterator<Item = &'a Map<String, Value>>,
) -> Option<Map<String, Value>> {
    let schema = &tool.input_schema;
    let fits = |mut arguments: Map<String, Value>| {
        point_at_scratch(tool.folder.as_ref(), &mut arguments);
        match check_arguments(schema, arguments.clone().into()) {
            Ok(Ok(_)) => Ok(arguments),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    };
    let given = examples.cloned().find_map(|example| fits(example).ok());
    let found = match given {
        Some(given) => Ok(given),
        None => fits(sample::arguments(schema)),
    };
    let outcome = match (&found, undefined_property(schema)) {
        (Ok(_), _) => Outcome::Passed,
        (Err(_), Some(name)) => Outcome::failed(
            format!(
                "it requires the property {}, which `properties` does not have",
                quoted(name)
            ),
            "add it to `properties`, or remove it from `required`",
        ),
        (Err(error), None) => Outcome::skipped(
            format!("no valid arguments could be made: {error}"),
            "write a case that expects an answer: the run then uses its arguments",
        ),
    };
    let name = Some(&*tool.name);
    recorder.check(&FIT, name, async { outcome }).await;
    found.ok()
}

/// Returns a required property that the schema does not define: no call can give it.
fn undefined_property(schema: &Map<String, Value>) -> Option<&str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array)?;
    let mut required = required.iter().filter_map(Value::as_str);
    required.find(|name| !properties.is_some_and(|properties| properties.contains_key(*name)))
}

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    let name = Some(trial.name());
    recorder.check(&MISSING, name, missing(trial)).await;
    recorder.check(&TYPE, name, wrong_type(trial)).await;
    recorder.check(&UNKNOWN, name, unknown(trial)).await;
    recorder.check(&NULL, name, null(trial)).await;
}

async fn missing(trial: &Trial<'_>) -> Outcome {
    let schema = &trial.tool.input_schema;
    let required: Vec<&str> = names(schema, "required").collect();
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
    let mut tried = 0;
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
        tried += 1;
    }
    match tried {
        0 => Outcome::skipped(
            "no property has a type",
            "give each property a `type`: a model then knows what to write",
        ),
        _ => Outcome::Passed,
    }
}

async fn unknown(trial: &Trial<'_>) -> Outcome {
    let schema = &trial.tool.input_schema;
    let more = schema.get("additionalProperties");
    if more.is_some_and(|more| more != false) || schema.contains_key("patternProperties") {
        return Outcome::skipped("its schema allows unknown properties", "");
    }
    let mut arguments = trial.sample.clone();
    arguments.insert(UNKNOWN_PROPERTY.to_owned(), 1.into());
    wrongly_accepted(trial.call(arguments).await, "with an unknown property")
        .unwrap_or(Outcome::Passed)
}

async fn null(trial: &Trial<'_>) -> Outcome {
    let schema = &trial.tool.input_schema;
    let optional: Vec<&String> = properties(trial)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| names(schema, "required").all(|required| required != name.as_str()))
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
                "treat null as an absent property: models write either",
            );
        }
    }
    Outcome::Passed
}

/// Returns the outcome "failed" if the host accepted arguments that it must refuse.
fn wrongly_accepted(result: TrialResult, context: &str) -> Option<Outcome> {
    match result {
        Err(CallError::Arguments(_)) => None,
        result => Some(Outcome::failed(
            format!("{context}, {}", describe(&result)),
            "make the schema say which arguments the tool accepts",
        )),
    }
}

/// Returns a value of a type that a schema does not allow. `None` if it names no
/// type, or every type.
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

fn names<'a>(schema: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> {
    let names = schema.get(key).and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}
