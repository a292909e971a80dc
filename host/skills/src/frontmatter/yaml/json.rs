//! Converts frontmatter to JSON by the rules of YAML 1.2: plain scalars get the types of the core
//! schema, and all keys are kept.
//!
//! Refuses repeated keys, keys that are not text, and numbers such as `.inf`: JSON cannot express
//! these, or programs that read JSON disagree about them.

use granit_parser::{Event, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use super::{YamlError, YamlEvents, document};
use crate::frontmatter::quoted;

/// Reads `yaml`, which starts on `first_line` of the file, as one object.
pub(in crate::frontmatter) fn object(
    yaml: &str,
    first_line: u32,
) -> Result<Map<String, Value>, YamlError> {
    document(yaml, first_line, YamlEvents::object)
}

impl<'a> YamlEvents<'a> {
    /// Returns the object whose start has been read. The parser's limit on nesting bounds
    /// this recursion.
    fn object(&mut self) -> Result<Map<String, Value>, YamlError> {
        let mut object = Map::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(object),
                Event::Scalar(text, style, ..) if !is_empty(style, &span) => text.into_owned(),
                _ => return Err(self.error_at(&span, "a key must be text")),
            };
            if object.contains_key(&key) {
                let message = format!("{} occurs twice", quoted(&key));
                return Err(self.error_at(&span, &message));
            }
            let (event, span) = self.next()?;
            let value = self.json(event, &span)?;
            object.insert(key, value);
        }
    }

    fn array(&mut self) -> Result<Vec<Value>, YamlError> {
        let mut array = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(array);
            }
            array.push(self.json(event, &span)?);
        }
    }

    fn json(&mut self, event: Event<'a>, span: &Span) -> Result<Value, YamlError> {
        match event {
            // The parser reports a missing value as `~`.
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text).ok_or_else(|| {
                let message = format!("JSON has no number {}", quoted(&text));
                self.error_at(span, &message)
            }),
            Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => self.array().map(Value::Array),
            Event::MappingStart(..) => self.object().map(Value::Object),
            _ => Err(self.error_at(span, "a value is missing")),
        }
    }
}

/// Returns whether a scalar has no source text.
fn is_empty(style: ScalarStyle, span: &Span) -> bool {
    style == ScalarStyle::Plain && span.is_empty()
}

/// Returns the value of a plain scalar by the core schema of YAML 1.2. Returns `None` for a
/// number that JSON does not have.
fn plain(text: &str) -> Option<Value> {
    Some(match text {
        "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return None,
        _ => match number(text) {
            Some(number) => Value::Number(number?),
            None => Value::String(text.to_owned()),
        },
    })
}

/// Parses a number. Returns `None` if the text is not a number, and `Some(None)` for a number that
/// JSON does not have.
fn number(text: &str) -> Option<Option<Number>> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let is_number = !digits.is_empty() && digits.chars().all(|char| char.is_digit(radix));
            return is_number.then(|| u64::from_str_radix(digits, radix).ok().map(Number::from));
        }
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(None);
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_mantissa = match mantissa.split_once('.') {
        Some((whole, fraction)) => {
            digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
        }
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let is_exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    if !(is_mantissa && is_exponent) {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    if digits(unsigned) {
        if let Ok(number) = text.parse::<i64>() {
            return Some(Some(number.into()));
        }
        if let Ok(number) = text.parse::<u64>() {
            return Some(Some(number.into()));
        }
    }
    Some(text.parse().ok().and_then(Number::from_f64))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn reads_frontmatter_as_json_by_the_core_schema() {
        let cases = [
            ("", json!({})),
            ("# nothing\n", json!({})),
            (
                "name: a\ndescription: Adds. Use",
                json!({"name": "a", "description": "Adds. Use"}),
            ),
            (
                "a: ' quoted '\nb: \"x\\ty\"\nc: >-\n  one\n  two\nd: |\n  x\n  y\n",
                json!({"a": " quoted ", "b": "x\ty", "c": "one two", "d": "x\ny\n"}),
            ),
            (
                "a: 1\nb: -2\nc: +3\nd: 007\ne: 0x1F\nf: 0o17\ng: 1.10\nh: .5\ni: 1e3\nj: -0\n",
                json!({"a": 1, "b": -2, "c": 3, "d": 7, "e": 31, "f": 15, "g": 1.1, "h": 0.5,
                       "i": 1000.0, "j": 0}),
            ),
            (
                "a: 18446744073709551615\nb: 18446744073709551616\n",
                json!({"a": 18_446_744_073_709_551_615_u64, "b": 18_446_744_073_709_551_616.0}),
            ),
            (
                "a: true\nb: FALSE\nc: null\nd: ~\ne:\nf: yes\ng: on\nh: 2024-01-31\ni: 1_000\nj: 1.2.3\nk: 'true'\nl: '1'\nm: e3\nn: .\no: 0x\np: 1e\nq: 1ex\nr: 0xg\ns: 1.x\n",
                json!({"a": true, "b": false, "c": null, "d": null, "e": null, "f": "yes",
                       "g": "on", "h": "2024-01-31", "i": "1_000", "j": "1.2.3", "k": "true",
                       "l": "1", "m": "e3", "n": ".", "o": "0x", "p": "1e", "q": "1ex", "r": "0xg", "s": "1.x"}),
            ),
            (
                "a: [1, x, [y]]\nb:\n  - c: d\n    e: [f]\n  -\nmetadata: {version: 1.0, \"k\": v}\n1: one\n",
                json!({"a": [1, "x", ["y"]], "b": [{"c": "d", "e": ["f"]}, null],
                       "metadata": {"version": 1.0, "k": "v"}, "1": "one"}),
            ),
        ];
        for (yaml, want) in cases {
            let read = object(yaml, 2).map(Value::Object);
            assert_eq!(read, Ok(want), "{yaml}");
        }
    }

    #[test]
    fn refuses_what_json_cannot_express_with_its_line() {
        for (yaml, line, message) in [
            ("a: 1\na: 2\n", 3, "`a` occurs twice"),
            ("a:\n  b: 1\n  b: 1\n", 4, "`b` occurs twice"),
            ("a: .inf\n", 2, "JSON has no number `.inf`"),
            ("a: [-.Inf]\n", 2, "JSON has no number `-.Inf`"),
            ("a: .nan\n", 2, "JSON has no number `.nan`"),
            ("a: 1e999\n", 2, "JSON has no number `1e999`"),
            (
                "a: 0xFFFFFFFFFFFFFFFFF\n",
                2,
                "JSON has no number `0xFFFFFFFFFFFFFFFFF`",
            ),
            ("? [a]\n: b\n", 2, "a key must be text"),
            ("? \n: b\n", 3, "a key must be text"),
            (
                "a: &x 1\n",
                2,
                "anchors, aliases and tags are not allowed here",
            ),
            (
                "a: !!str 1\n",
                2,
                "anchors, aliases and tags are not allowed here",
            ),
            ("- a\n", 2, "expected `key: value` lines"),
            ("a: b\n--- \nc: d\n", 3, "a second document starts here"),
        ] {
            let refusal = object(yaml, 2).unwrap_err();
            assert_eq!((refusal.line, &*refusal.message), (line, message), "{yaml}");
        }
    }

    #[test]
    fn refuses_hostile_frontmatter() {
        for yaml in [
            "[".repeat(60_000),
            format!("a: {}", "[".repeat(60_000)),
            format!("a: {}", "{b: ".repeat(10_000)),
            "a: 1\n".repeat(10_000),
            "- ".repeat(30_000),
            (0..5000).map(|n| format!("k{n}: {n}\n")).collect(),
        ] {
            assert!(object(&yaml, 2).is_err());
        }
    }
}
