//! Comparing a case's expectation with the result of its call, and writing an
//! expectation from a result.

use serde_json::{Map, Value, json};

use super::case::Expect;
use super::wording::{TrialResult, quoted, shortened};
use skillhost::message::model_text;
use skillhost::{CallOutcome, Line};

/// Most characters of two texts that a message shows whole.
const SHOWN: usize = 200;

impl Expect {
    /// Compares a result with the expectation. The error describes the difference.
    pub(super) fn check(&self, ended: &TrialResult) -> Result<(), String> {
        let read = model_text(ended.clone());
        match (self, ended) {
            (
                Self::Answer {
                    text,
                    contains,
                    record,
                },
                Ok(output),
            ) => {
                check_equal(text.as_deref(), &read)?;
                check_contains(contains, &read)?;
                record.as_ref().map_or(Ok(()), |part| {
                    check_part(part, &output.record(), "record".to_owned())
                })
            }
            (Self::Answer { .. }, Err(_)) => Err(format!(
                "expected an answer, but the call ended with `{}`: {}",
                kind(ended),
                quoted(&read)
            )),
            (Self::Error { .. }, Ok(_)) => {
                Err(format!("expected no answer, but it was {}", quoted(&read)))
            }
            (
                Self::Error {
                    kind: expected,
                    message,
                    contains,
                },
                Err(_),
            ) => {
                let seen = kind(ended);
                if expected.as_deref().is_some_and(|kind| kind != seen) {
                    let expected = expected.as_deref().unwrap_or_default();
                    return Err(format!(
                        "expected `{expected}`, but the call ended with `{seen}`: {}",
                        quoted(&read)
                    ));
                }
                check_equal(message.as_deref(), &read)?;
                check_contains(contains, &read)
            }
        }
    }

    /// Returns an expectation that this result meets.
    pub(super) fn of(ended: &TrialResult, before: Option<&Self>) -> Value {
        let read = model_text(ended.clone());
        match (ended, before) {
            (Err(_), _) => json!({"error": {"kind": kind(ended), "message": read}}),
            (
                Ok(output),
                Some(Self::Answer {
                    text,
                    contains,
                    record: Some(part),
                }),
            ) => {
                let mut expect = Map::new();
                // What the model reads stays a part of the case.
                let contained = contains.iter().all(|part| read.contains(part));
                if contained && !contains.is_empty() {
                    expect.insert("contains".to_owned(), json!(contains));
                }
                if text.is_some() || !contained {
                    expect.insert("text".to_owned(), read.into());
                }
                let part = restricted_to(part, output.record());
                expect.insert("record".to_owned(), part);
                expect.into()
            }
            (Ok(_), _) => json!({"text": read}),
        }
    }
}

/// Returns the word for how a call ended.
fn kind(ended: &TrialResult) -> &'static str {
    let outcome = CallOutcome::of(ended);
    outcome.reason().unwrap_or(outcome.name())
}

fn check_equal(expected: Option<&str>, seen: &str) -> Result<(), String> {
    let Some(expected) = expected.filter(|expected| *expected != seen) else {
        return Ok(());
    };
    if expected.chars().count() + seen.chars().count() <= SHOWN {
        let (expected, seen) = (quoted(expected), quoted(seen));
        return Err(format!("expected {expected}, but it was {seen}"));
    }
    let (mut expected, mut seen) = (expected.split('\n'), seen.split('\n'));
    let mut number = 0;
    loop {
        number += 1;
        match (expected.next(), seen.next()) {
            (Some(expected), Some(seen)) if expected == seen => {}
            (None, None) => return Ok(()),
            (expected, seen) => {
                let line = |line: Option<&str>| line.map_or("the end".to_owned(), quoted);
                return Err(format!(
                    "in line {number}, expected {}, but it was {}",
                    line(expected),
                    line(seen)
                ));
            }
        }
    }
}

fn check_contains(texts: &[String], seen: &str) -> Result<(), String> {
    match texts.iter().find(|text| !seen.contains(*text)) {
        None => Ok(()),
        Some(text) => Err(format!(
            "expected {} in the text, but it was {}",
            quoted(text),
            quoted(seen)
        )),
    }
}

/// Checks that a value is a part of another. The error names the place.
fn check_part(part: &Value, whole: &Value, place: String) -> Result<(), String> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().try_for_each(|(key, part)| {
            let place = format!("{place}.{key}");
            match whole.get(key) {
                Some(value) => check_part(part, value, place),
                None => Err(format!("`{}` is missing", Line::new(place))),
            }
        }),
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            let mut pairs = part.iter().zip(whole).enumerate();
            pairs.try_for_each(|(index, (part, value))| {
                check_part(part, value, format!("{place}[{index}]"))
            })
        }
        (Value::Array(part), Value::Array(whole)) => Err(format!(
            "`{}` has {} values, but {} were expected",
            Line::new(place),
            whole.len(),
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
            Line::new(place),
            shown(whole),
            shown(part)
        )),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => shortened(&other.to_string()),
    }
}

/// Returns the part of `whole` at the keys of `part`.
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

    fn answer(text: &str, details: Option<&str>) -> TrialResult {
        Ok(Output::new(text, details.map(str::to_owned), Form::Text))
    }

    fn failure(kind: FailureKind, message: &str) -> TrialResult {
        Err(CallError::Failed(Failure::new(kind, message)))
    }

    fn expect(json: Value) -> Expect {
        let case = json!({"tool": "t", "expect": json}).to_string();
        let mut cases = super::super::case::read("c", "c", &case, false).unwrap();
        cases.remove(0).expect.unwrap()
    }

    #[test]
    fn reports_how_a_result_differs_from_the_expectation() {
        let details = r#"{"a": 1, "b": {"c": [1, {"d": 2, "e": 3}]}, "f": 1.0}"#;
        let trap = Err(CallError::Stopped {
            tool: "t".to_owned(),
            stop: Stop::Trap("cause".to_owned()),
            help: Help::default(),
        });
        let long = |line: &str| format!("{}\n{line}\nend", "check_equal\n".repeat(100));
        for (expected, ended, otherwise) in [
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
                Some(r#"expected no answer, but it was "m""#),
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
            let seen = expect(expected.clone()).check(&ended);
            assert_eq!(seen.err().as_deref(), otherwise, "{expected}");
        }
    }

    #[test]
    fn reads_again_what_it_writes_of_every_stop() {
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
            let ended = Err(CallError::Stopped {
                tool: "t".to_owned(),
                stop,
                help: Help::default(),
            });
            assert_eq!(expect(Expect::of(&ended, None)).check(&ended), Ok(()));
        }
    }

    #[test]
    fn writes_an_expectation_that_the_result_meets() {
        let details = r#"{"a": 1, "b": [{"c": 2, "d": 3}]}"#;
        for (ended, before, written) in [
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
            let before = before.map(expect);
            let new = Expect::of(&ended, before.as_ref());
            assert_eq!(new, written);
            assert_eq!(expect(new).check(&ended), Ok(()));
        }
    }
}
