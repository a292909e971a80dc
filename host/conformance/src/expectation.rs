//! Compares a case's expectation with the result of its call, and makes an expectation
//! from a result.

use serde_json::{Map, Value, json};

use super::case::Expectation;
use super::wording::{CallResult, quoted, shortened};
use skillhost::message::model_text;
use skillhost::{CallOutcome, Line};
use skillhost_skills::text::count::count;

/// The maximum number of characters of two compared texts together. A message shows longer texts
/// only in part.
const MAX_SHOWN: usize = 200;

impl Expectation {
    /// Compares a result with the expectation. The error describes the difference.
    pub(super) fn check(&self, result: &CallResult) -> Result<(), String> {
        let model_text = model_text(result.clone());
        match (self, result) {
            (
                Self::Answer {
                    text,
                    contains,
                    record,
                },
                Ok(output),
            ) => {
                check_equal(text.as_deref(), &model_text)?;
                check_contains(contains, &model_text)?;
                record.as_ref().map_or(Ok(()), |part| {
                    check_part(part, &output.record(), "record".to_owned())
                })
            }
            (Self::Answer { .. }, Err(_)) => Err(format!(
                "expected an answer, but the call ended with `{}`: {}",
                kind(result),
                quoted(&model_text)
            )),
            (Self::Error { .. }, Ok(_)) => {
                let answer = quoted(&model_text);
                Err(format!(
                    "expected an error, but the call was answered: {answer}"
                ))
            }
            (
                Self::Error {
                    kind: expected,
                    message,
                    contains,
                },
                Err(_),
            ) => {
                let actual = kind(result);
                if expected.as_deref().is_some_and(|kind| kind != actual) {
                    let expected = expected.as_deref().unwrap_or_default();
                    return Err(format!(
                        "expected `{expected}`, but the call ended with `{actual}`: {}",
                        quoted(&model_text)
                    ));
                }
                check_equal(message.as_deref(), &model_text)?;
                check_contains(contains, &model_text)
            }
        }
    }

    /// Makes an expectation that this result meets, as JSON.
    ///
    /// If the result is an answer, keeps the keys of the previous expectation.
    pub(super) fn from_result(result: &CallResult, previous: Option<&Self>) -> Value {
        let model_text = model_text(result.clone());
        match (result, previous) {
            (Err(_), _) => json!({"error": {"kind": kind(result), "message": model_text}}),
            (
                Ok(output),
                Some(Self::Answer {
                    text,
                    contains,
                    record: Some(part),
                }),
            ) => {
                let mut expect = Map::new();
                // Keep `contains` if the text still has all of its parts. Otherwise write `text`
                // instead.
                let contains_all = contains.iter().all(|part| model_text.contains(part));
                if contains_all && !contains.is_empty() {
                    expect.insert("contains".to_owned(), json!(contains));
                }
                if text.is_some() || !contains_all {
                    expect.insert("text".to_owned(), model_text.into());
                }
                let part = restricted_to(part, output.record());
                expect.insert("record".to_owned(), part);
                expect.into()
            }
            (Ok(_), _) => json!({"text": model_text}),
        }
    }
}

/// Returns the name of the outcome of a call, as in `kind` of a case.
fn kind(result: &CallResult) -> &'static str {
    let outcome = CallOutcome::of(result);
    outcome.reason().unwrap_or(outcome.name())
}

/// Checks that a text is the expected one. The error shows the first different line.
fn check_equal(expected: Option<&str>, actual: &str) -> Result<(), String> {
    let Some(expected) = expected.filter(|expected| *expected != actual) else {
        return Ok(());
    };
    if expected.chars().count() + actual.chars().count() <= MAX_SHOWN {
        let (expected, actual) = (quoted(expected), quoted(actual));
        return Err(format!("expected {expected}, but it was {actual}"));
    }
    let (mut expected, mut actual) = (expected.split('\n'), actual.split('\n'));
    let mut number = 0;
    loop {
        number += 1;
        match (expected.next(), actual.next()) {
            (Some(expected), Some(actual)) if expected == actual => {}
            (None, None) => return Ok(()),
            (expected, actual) => {
                let quoted_line = |line: Option<&str>| line.map_or("the end".to_owned(), quoted);
                return Err(format!(
                    "in line {number}, expected {}, but it was {}",
                    quoted_line(expected),
                    quoted_line(actual)
                ));
            }
        }
    }
}

fn check_contains(texts: &[String], actual: &str) -> Result<(), String> {
    match texts.iter().find(|text| !actual.contains(*text)) {
        None => Ok(()),
        Some(text) => Err(format!(
            "expected {} in the text, but it was {}",
            quoted(text),
            quoted(actual)
        )),
    }
}

/// Checks that `whole` contains `part`. The error names the path of the difference.
fn check_part(part: &Value, whole: &Value, path: String) -> Result<(), String> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().try_for_each(|(key, part)| {
            let path = format!("{path}.{key}");
            match whole.get(key) {
                Some(value) => check_part(part, value, path),
                None => Err(format!("`{}` is missing", Line::new(path))),
            }
        }),
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            let mut pairs = part.iter().zip(whole).enumerate();
            pairs.try_for_each(|(index, (part, value))| {
                check_part(part, value, format!("{path}[{index}]"))
            })
        }
        (Value::Array(part), Value::Array(whole)) => Err(format!(
            "`{}` has {}, but {} were expected",
            Line::new(path),
            count(whole.len(), "value"),
            part.len()
        )),
        (Value::Number(part), Value::Number(whole))
            if part == whole || part.as_f64() == whole.as_f64() =>
        {
            Ok(())
        }
        (part, whole) if part == whole => Ok(()),
        (part, whole) => Err(format!(
            "`{}` is {}, but {} was expected",
            Line::new(path),
            quoted_value(whole),
            quoted_value(part)
        )),
    }
}

fn quoted_value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => shortened(&other.to_string()),
    }
}

/// Returns `whole` with only the keys that `part` has.
fn restricted_to(part: &Value, whole: Value) -> Value {
    match (part, whole) {
        (Value::Object(part), Value::Object(mut whole)) => {
            let kept = part.iter().filter_map(|(key, part)| {
                let value = whole.remove(key)?;
                Some((key.clone(), restricted_to(part, value)))
            });
            kept.collect::<Map<_, _>>().into()
        }
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            let values = part.iter().zip(whole);
            values
                .map(|(part, value)| restricted_to(part, value))
                .collect()
        }
        (_, whole) => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost::{CallError, Failure, FailureKind, Form, Help, Output, Stop};

    fn answer(text: &str, details: Option<&str>) -> CallResult {
        Ok(Output::new(text, details.map(str::to_owned), Form::Text))
    }

    fn failure(kind: FailureKind, message: &str) -> CallResult {
        Err(CallError::Failed(Failure::new(kind, message)))
    }

    fn expect(json: Value) -> Expectation {
        let case = json!({"tool": "t", "expect": json}).to_string();
        let mut cases = super::super::case::parse("c", "c", &case, false).unwrap();
        cases.remove(0).expect.unwrap()
    }

    #[test]
    fn describes_the_first_difference() {
        let details = r#"{"a": 1, "b": {"c": [1, {"d": 2, "e": 3}]}, "f": 1.0}"#;
        let trap = Err(CallError::Stopped {
            tool: "t".to_owned(),
            stop: Stop::Trap("cause".to_owned()),
            help: Help::default(),
        });
        let long = |line: &str| format!("{}\n{line}\nend", "check_equal\n".repeat(100));
        for (expected, result, error) in [
            (json!({"text": "a"}), answer("a", None), None),
            (
                json!({"text": "a"}),
                answer("a\n", None),
                Some(r#"expected "a", but it was "a\n""#),
            ),
            (
                json!({"text": long("x")}),
                answer(&long("y"), None),
                Some(r#"in line 102, expected "x", but it was "y""#),
            ),
            (json!({"contains": "b"}), answer("abc", None), None),
            (
                json!({"contains": ["b", "x"]}),
                answer("abc", None),
                Some(r#"expected "x" in the text, but it was "abc""#),
            ),
            (json!({"record": {}}), answer("", Some(details)), None),
            (
                json!({"record": {"f": 1, "b": {"c": [1, {"e": 3}]}}}),
                answer("", Some(details)),
                None,
            ),
            (json!({"record": {"text": "a"}}), answer("a", None), None),
            (
                json!({"record": {"b": {"c": [1, {"e": 4}]}}}),
                answer("", Some(details)),
                Some("`record.b.c[1].e` is 3, but 4 was expected"),
            ),
            (
                json!({"record": {"b": {"c": []}}}),
                answer("", Some(details)),
                Some("`record.b.c` has 2 values, but 0 were expected"),
            ),
            (
                json!({"record": {"x": null}}),
                answer("", Some(details)),
                Some("`record.x` is missing"),
            ),
            (
                json!({"record": {"a": "1"}}),
                answer("", Some(details)),
                Some(r#"`record.a` is 1, but "1" was expected"#),
            ),
            (
                json!({"error": {"kind": "not-found", "message": "m", "contains": "m"}}),
                failure(FailureKind::NotFound, "m"),
                None,
            ),
            (
                json!({"error": {"kind": "refused"}}),
                failure(FailureKind::NotFound, "m"),
                Some(r#"expected `refused`, but the call ended with `not-found`: "m""#),
            ),
            (
                json!({"error": {"message": "x"}}),
                failure(FailureKind::NotFound, "m"),
                Some(r#"expected "x", but it was "m""#),
            ),
            (
                json!({"error": {"message": "m"}}),
                answer("m", None),
                Some(r#"expected an error, but the call was answered: "m""#),
            ),
            (
                json!({"text": "m"}),
                failure(FailureKind::Failed, "m"),
                Some(r#"expected an answer, but the call ended with `failed`: "m""#),
            ),
            (json!({"error": {"kind": "trap"}}), trap, None),
            (
                json!({"error": {"kind": "arguments", "contains": "'a'"}}),
                Err(CallError::Arguments("Unknown argument: 'a'".to_owned())),
                None,
            ),
        ] {
            let checked = expect(expected.clone()).check(&result);
            assert_eq!(checked.err().as_deref(), error, "{expected}");
        }
    }

    #[test]
    fn expectation_made_from_a_stop_accepts_that_stop() {
        let not_granted = Stop::NotGranted {
            skill: "a".to_owned(),
            component: "c.wasm".to_owned(),
        };
        let trap = Stop::Trap("cause".to_owned());
        for stop in [
            Stop::HostMemory,
            Stop::Busy,
            Stop::NotRecorded,
            Stop::Memory(1),
            not_granted,
            trap,
        ] {
            let result = Err(CallError::Stopped {
                tool: "t".to_owned(),
                stop,
                help: Help::default(),
            });
            let expected = expect(Expectation::from_result(&result, None));
            assert_eq!(expected.check(&result), Ok(()));
        }
    }

    #[test]
    fn makes_expectations_that_the_result_meets() {
        let details = r#"{"a": 1, "b": [{"c": 2, "d": 3}]}"#;
        for (result, previous, expected) in [
            (answer("x", None), None, json!({"text": "x"})),
            (
                answer("x", None),
                Some(json!({"contains": "y"})),
                json!({"text": "x"}),
            ),
            (
                answer("x", Some(details)),
                Some(json!({"record": {"b": [{"d": 9}], "gone": 1}})),
                json!({"record": {"b": [{"d": 3}]}}),
            ),
            (
                answer("x", Some(details)),
                Some(json!({"text": "y", "record": {"a": 9}})),
                json!({"text": "x", "record": {"a": 1}}),
            ),
            (
                answer("x", Some(details)),
                Some(json!({"contains": "x", "record": {"a": 9}})),
                json!({"contains": ["x"], "record": {"a": 1}}),
            ),
            (
                answer("x", Some(details)),
                Some(json!({"contains": "y", "record": {"a": 9}})),
                json!({"text": "x", "record": {"a": 1}}),
            ),
            (
                failure(FailureKind::Refused, "m"),
                Some(json!({"text": "x"})),
                json!({"error": {"kind": "refused", "message": "m"}}),
            ),
        ] {
            let previous = previous.map(expect);
            let new = Expectation::from_result(&result, previous.as_ref());
            assert_eq!(new, expected);
            assert_eq!(expect(new).check(&result), Ok(()));
        }
    }
}
