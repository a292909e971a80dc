//! What a case expects, held against what a call ended in; and what a case
//! should expect, to be like that.

use serde_json::{Map, Value, json};

use super::case::Expect;
use super::trial::{Ended, quoted};
use skillhost::Line;
use skillhost::internal::kind as outcome;
use skillhost::message::model_text;

/// Most characters of two texts that are shown whole beside each other.
const SHOWN: usize = 200;

impl Expect {
    /// The error says what is otherwise.
    pub(super) fn check(&self, ended: &Ended) -> Result<(), String> {
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
                same(text.as_deref(), &read)?;
                all_in(contains, &read)?;
                record.as_ref().map_or(Ok(()), |part| {
                    is_part(part, &output.record(), "record".to_owned())
                })
            }
            (Self::Answer { .. }, Err(_)) => Err(format!(
                "an answer was expected, and the call ended with `{}`: {}",
                kind(ended),
                quoted(&read)
            )),
            (Self::Error { .. }, Ok(_)) => Err(format!(
                "no answer was expected, and it was {}",
                quoted(&read)
            )),
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
                        "`{expected}` was expected, and the call ended with `{seen}`: {}",
                        quoted(&read)
                    ));
                }
                same(message.as_deref(), &read)?;
                all_in(contains, &read)
            }
        }
    }

    /// What to expect in the place of this, for the call to be as expected.
    pub(super) fn of(ended: &Ended, before: Option<&Self>) -> Value {
        let read = model_text(ended.clone());
        match (ended, before) {
            (Err(_), _) => json!({"error": {"kind": kind(ended), "message": read}}),
            (
                Ok(output),
                Some(Self::Answer {
                    text,
                    record: Some(part),
                    ..
                }),
            ) => {
                let mut expect = Map::new();
                if text.is_some() {
                    expect.insert("text".to_owned(), read.into());
                }
                let part = like(part, output.record());
                expect.insert("record".to_owned(), part);
                expect.into()
            }
            (Ok(_), _) => json!({"text": read}),
        }
    }
}

/// Why a call has no answer, in a word.
fn kind(ended: &Ended) -> &'static str {
    match outcome(ended) {
        (_, Some(reason)) => reason,
        (outcome, None) => outcome,
    }
}

fn same(expected: Option<&str>, seen: &str) -> Result<(), String> {
    let Some(expected) = expected.filter(|expected| *expected != seen) else {
        return Ok(());
    };
    if expected.chars().count() + seen.chars().count() <= SHOWN {
        let (expected, seen) = (quoted(expected), quoted(seen));
        return Err(format!("{expected} was expected, and it was {seen}"));
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
                    "in line {number}, {} was expected, and it was {}",
                    line(expected),
                    line(seen)
                ));
            }
        }
    }
}

fn all_in(texts: &[String], seen: &str) -> Result<(), String> {
    match texts.iter().find(|text| !seen.contains(*text)) {
        None => Ok(()),
        Some(text) => Err(format!(
            "{} was expected in it, and it was {}",
            quoted(text),
            quoted(seen)
        )),
    }
}

/// Whether a value is a part of another. The error says where it is not.
fn is_part(part: &Value, whole: &Value, place: String) -> Result<(), String> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().try_for_each(|(key, part)| {
            let place = format!("{place}.{key}");
            match whole.get(key) {
                Some(value) => is_part(part, value, place),
                None => Err(format!("`{}` is missing", Line::new(place))),
            }
        }),
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            let mut pairs = part.iter().zip(whole).enumerate();
            pairs.try_for_each(|(index, (part, value))| {
                is_part(part, value, format!("{place}[{index}]"))
            })
        }
        (Value::Array(part), Value::Array(whole)) => Err(format!(
            "`{}` has {} values, and {} were expected",
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
            "`{}` is {}, and {} was expected",
            Line::new(place),
            shown(whole),
            shown(part)
        )),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => super::trial::bounded(&other.to_string()),
    }
}

/// What stands in `whole` at the keys that `part` has.
fn like(part: &Value, whole: Value) -> Value {
    match (part, whole) {
        (Value::Object(part), Value::Object(mut whole)) => {
            let kept = part.iter().filter_map(|(key, part)| {
                let value = whole.remove(key)?;
                Some((key.clone(), like(part, value)))
            });
            kept.collect::<Map<_, _>>().into()
        }
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            let values = part.iter().zip(whole);
            values.map(|(part, value)| like(part, value)).collect()
        }
        (_, whole) => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost::{CallError, Failure, FailureKind, Form, Output, Stop};

    fn answer(text: &str, details: Option<&str>) -> Ended {
        Ok(Output::new(text, details.map(str::to_owned), Form::Text))
    }

    fn failure(kind: FailureKind, message: &str) -> Ended {
        Err(CallError::Failed(Failure::new(kind, message)))
    }

    fn expect(json: Value) -> Expect {
        let case = json!({"tool": "t", "expect": json}).to_string();
        let mut cases = super::super::case::read("c", "c", &case, false).unwrap();
        cases.remove(0).expect.unwrap()
    }

    #[test]
    fn a_call_that_is_otherwise_is_told_from_one_that_is_as_expected() {
        let details = r#"{"a": 1, "b": {"c": [1, {"d": 2, "e": 3}]}, "f": 1.0}"#;
        let trap = Err(CallError::Stopped {
            tool: "t".to_owned(),
            stop: Stop::Trap("cause".to_owned()),
        });
        let long = |line: &str| format!("{}\n{line}\nend", "same\n".repeat(100));
        for (expected, ended, otherwise) in [
            (json!({"text": "a"}), answer("a", None), None),
            (
                json!({"text": "a"}),
                answer("a\n", None),
                Some(r#""a" was expected, and it was "a\n""#),
            ),
            (
                json!({"text": long("x")}),
                answer(&long("y"), None),
                Some(r#"in line 102, "x" was expected, and it was "y""#),
            ),
            (json!({"contains": "b"}), answer("abc", None), None),
            (
                json!({"contains": ["b", "x"]}),
                answer("abc", None),
                Some(r#""x" was expected in it, and it was "abc""#),
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
                Some("`record.b.c[1].e` is 3, and 4 was expected"),
            ),
            (
                json!({"record": {"b": {"c": []}}}),
                answer("", Some(details)),
                Some("`record.b.c` has 2 values, and 0 were expected"),
            ),
            (
                json!({"record": {"x": null}}),
                answer("", Some(details)),
                Some("`record.x` is missing"),
            ),
            (
                json!({"record": {"a": "1"}}),
                answer("", Some(details)),
                Some(r#"`record.a` is 1, and "1" was expected"#),
            ),
            (
                json!({"error": {"kind": "not-found", "message": "m", "contains": "m"}}),
                failure(FailureKind::NotFound, "m"),
                None,
            ),
            (
                json!({"error": {"kind": "refused"}}),
                failure(FailureKind::NotFound, "m"),
                Some(r#"`refused` was expected, and the call ended with `not-found`: "m""#),
            ),
            (
                json!({"error": {"message": "x"}}),
                failure(FailureKind::NotFound, "m"),
                Some(r#""x" was expected, and it was "m""#),
            ),
            (
                json!({"error": {"message": "m"}}),
                answer("m", None),
                Some(r#"no answer was expected, and it was "m""#),
            ),
            (
                json!({"text": "m"}),
                failure(FailureKind::Failed, "m"),
                Some(r#"an answer was expected, and the call ended with `failed`: "m""#),
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
    fn what_is_written_down_is_what_the_call_ends_in() {
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
