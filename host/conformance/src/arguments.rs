//! Arguments: some that fit, the ones that a schema promises to refuse, and
//! null in the place of nothing.

use serde_json::{Map, Value, json};

use super::Rule;
use super::report::{Outcome, Recorder};
use super::sample;
use super::trial::{Ended, Trial, in_words, on_scratch, quoted};
use skillhost::internal::check_arguments;
use skillhost::{CallError, Definition};

pub(super) const RULES: &[Rule] = &[FIT, MISSING, TYPE, UNKNOWN, NULL];

const FIT: Rule = Rule {
    id: "arguments-fit",
    sentence: "there are arguments that its schema takes",
};
const MISSING: Rule = Rule {
    id: "missing-refused",
    sentence: "arguments without a required property are refused",
};
const TYPE: Rule = Rule {
    id: "type-refused",
    sentence: "a value of another type than the schema says is refused",
};
const UNKNOWN: Rule = Rule {
    id: "unknown-refused",
    sentence: "a property that the schema does not name is refused",
};
const NULL: Rule = Rule {
    id: "null-is-absent",
    sentence: "an optional property that is null counts as one that is missing",
};

/// A property that no schema has.
const UNHEARD_OF: &str = "skillhost_test_unknown";

/// Arguments to try the tool with, on the scratch skill: from a case of the
/// author's that expects an answer, or made from the schema.
pub(super) async fn sample<'a>(
    recorder: &mut Recorder,
    tool: &Definition,
    examples: impl Iterator<Item = &'a Map<String, Value>>,
) -> Option<Map<String, Value>> {
    let schema = &tool.input_schema;
    let fits = |mut arguments: Map<String, Value>| {
        on_scratch(tool.folder.as_ref(), &mut arguments);
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
    let outcome = match (&found, unnamed(schema)) {
        (Ok(_), _) => Outcome::Passed,
        (Err(_), Some(name)) => Outcome::failed(
            format!(
                "it requires the property {}, and has none of that name",
                quoted(name)
            ),
            "name it in `properties`, or take it out of `required`",
        ),
        (Err(error), None) => Outcome::skipped(
            format!("none could be made: {error}"),
            "write a case that expects an answer: its arguments are then used",
        ),
    };
    let name = Some(&*tool.name);
    recorder.check(&FIT, name, async { outcome }).await;
    found.ok()
}

/// A required property that the schema has not, and so nobody may give.
fn unnamed(schema: &Map<String, Value>) -> Option<&str> {
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
        if let Some(failed) = accepted(trial.call(arguments).await, &format!("without `{name}`")) {
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
        let Some(wrong) = other_than(schema) else {
            continue;
        };
        let mut arguments = trial.sample.clone();
        let what = format!("with {wrong} as `{name}`");
        arguments.insert(name.clone(), wrong);
        if let Some(failed) = accepted(trial.call(arguments).await, &what) {
            return failed;
        }
        tried += 1;
    }
    match tried {
        0 => Outcome::skipped(
            "no property has a type",
            "say the `type` of each: a model then knows what to write",
        ),
        _ => Outcome::Passed,
    }
}

async fn unknown(trial: &Trial<'_>) -> Outcome {
    let schema = &trial.tool.input_schema;
    let more = schema.get("additionalProperties");
    if more.is_some_and(|more| more != false) || schema.contains_key("patternProperties") {
        return Outcome::skipped("its schema takes properties that it does not name", "");
    }
    let mut arguments = trial.sample.clone();
    arguments.insert(UNHEARD_OF.to_owned(), 1.into());
    accepted(trial.call(arguments).await, "with an unknown property").unwrap_or(Outcome::Passed)
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
                    "without `{name}` {}, and with null {}",
                    in_words(&absent),
                    in_words(&null)
                ),
                "treat null as a property that is not there: models write either",
            );
        }
    }
    Outcome::Passed
}

/// The failure that it is when the host takes arguments that it must refuse.
fn accepted(ended: Ended, what: &str) -> Option<Outcome> {
    match ended {
        Err(CallError::Arguments(_)) => None,
        ended => Some(Outcome::failed(
            format!("{what}, {}", in_words(&ended)),
            "see that the schema says what it takes",
        )),
    }
}

/// A value of a type that a schema does not name. None: it names no type, or
/// all of them.
fn other_than(schema: &Value) -> Option<Value> {
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
