//! The words after the tool's name: one JSON object, or `KEY=VALUE` pairs that become JSON
//! according to the tool's schema. The host checks whether the arguments fit the tool.

use std::io::Read as _;

use serde_json::{Map, Number, Value};
use skillhost::{CallError, MAX_ARGUMENTS, parse_arguments};

use skillhost_program::terminal;

/// The arguments of a call, as the user wrote them.
#[derive(Debug, PartialEq)]
pub(super) enum CallArguments<'a> {
    /// JSON on stdin.
    Stdin,
    /// JSON in one word.
    Json(&'a str),
    /// Keys with their values.
    Pairs(Vec<(&'a str, &'a str)>),
}

impl<'a> CallArguments<'a> {
    /// Parses the words of the command line.
    pub(super) fn parse(words: &'a [String]) -> Result<Self, CallError> {
        match words {
            [] => return Ok(Self::Json("")),
            [word] if word == "-" => return Ok(Self::Stdin),
            [word] if word.trim().is_empty() || looks_like_json(word) => {
                return Ok(Self::Json(word));
            }
            _ => {}
        }
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for word in words {
            let pair = word.split_once('=').filter(|_| !looks_like_json(word));
            let Some((key, value)) = pair.filter(|(key, _)| !key.is_empty()) else {
                let hint = if looks_like_json(word) {
                    "; JSON is one object in single quotes, without other words"
                } else {
                    ""
                };
                return refused(format!(
                    "expected KEY=VALUE or a JSON object, but got `{}`{hint}",
                    terminal::shortened(word)
                ));
            };
            if pairs.iter().any(|(other, _)| *other == key) {
                return refused(format!("`{key}` is given twice"));
            }
            pairs.push((key, value));
        }
        Ok(Self::Pairs(pairs))
    }

    /// Returns the arguments as JSON. `schema` is the tool's, or `None` if the tool is unknown.
    pub(super) fn read(&self, schema: Option<&Map<String, Value>>) -> Result<Value, CallError> {
        let pairs = match self {
            Self::Json(text) => return parse_arguments(text),
            Self::Stdin => return read_stdin(),
            Self::Pairs(pairs) => pairs,
        };
        let properties = schema.and_then(|schema| schema.get("properties"));
        let pairs = pairs.iter().map(|(key, value)| {
            let schema = properties.and_then(|properties| properties.get(key));
            match schema.map_or(Some((*value).into()), |schema| convert(value, schema)) {
                Some(value) => Ok(((*key).to_owned(), value)),
                None => refused(format!(
                    "`{key}` is a list or an object, which KEY=VALUE cannot express: give all \
                     arguments as one JSON object"
                )),
            }
        });
        pairs.collect::<Result<Map<_, _>, _>>().map(Value::Object)
    }
}

/// Checks whether a word starts like JSON, so that it is never KEY=VALUE.
fn looks_like_json(word: &str) -> bool {
    word.trim_start().starts_with(['{', '[', '"'])
}

fn read_stdin() -> Result<Value, CallError> {
    terminal::explain_wait("the arguments, one JSON object, on stdin", "Ctrl-D");
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_ARGUMENTS as u64 + 1)
        .read_to_end(&mut bytes);
    if let Err(error) = read {
        return refused(format!("cannot read the arguments from stdin: {error}"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => parse_arguments(&text),
        // Let the parser refuse them as too long, even if the limit cut a character in two.
        Err(error) if error.as_bytes().len() > MAX_ARGUMENTS => {
            parse_arguments(&String::from_utf8_lossy(error.as_bytes()))
        }
        Err(_) => refused("the arguments on stdin are not UTF-8".to_owned()),
    }
}

/// Converts a value to a type that the property's schema accepts. If none fits, returns a string,
/// which the host refuses. Returns `None` if the schema accepts only lists or objects.
fn convert(value: &str, schema: &Value) -> Option<Value> {
    let mut types = Vec::new();
    collect_types(schema, value, &mut types);
    let accepts = |kind: &str| types.contains(&kind);
    let accepts_number = accepts("integer") || accepts("number");
    if accepts("string") || types.is_empty() {
        return Some(value.into());
    }
    let number = serde_json::from_str::<Number>(value);
    match (value.parse::<bool>(), number) {
        (Ok(boolean), _) if accepts("boolean") => Some(boolean.into()),
        (_, Ok(number)) if accepts_number => Some(Value::Number(number)),
        _ if accepts_number || accepts("boolean") => Some(value.into()),
        _ => (!accepts("array") && !accepts("object")).then(|| value.into()),
    }
}

/// Collects the types that a schema accepts. A string of an `enum` or `const` counts as the type
/// `string` only if it equals `text`.
fn collect_types<'s>(schema: &'s Value, text: &str, types: &mut Vec<&'s str>) {
    let listed = schema.get("enum").and_then(Value::as_array);
    let value_types: Vec<&str> = listed
        .into_iter()
        .flatten()
        .chain(schema.get("const"))
        .map(|value| match value {
            Value::String(listed) if listed != text => "another string",
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "boolean",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::Null => "null",
        })
        .collect();
    if !value_types.is_empty() {
        types.extend(value_types);
        return;
    }
    match schema.get("type") {
        Some(Value::String(kind)) => types.push(kind),
        Some(Value::Array(kinds)) => types.extend(kinds.iter().filter_map(Value::as_str)),
        _ => {}
    }
    for choices in ["anyOf", "oneOf"] {
        let choices = schema.get(choices).and_then(Value::as_array);
        for choice in choices.into_iter().flatten() {
            collect_types(choice, text, types);
        }
    }
}

fn refused<T>(why: String) -> Result<T, CallError> {
    Err(CallError::Arguments(why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(words: &[&str], properties: &Value) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let schema = json!({ "properties": properties });
        CallArguments::parse(&words)
            .and_then(|arguments| arguments.read(schema.as_object()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn converts_values_to_the_schema_type() {
        for (schema, value, expected) in [
            (json!({"type": "string"}), "a=b", json!("a=b")),
            (json!({"type": "string"}), "", json!("")),
            (json!({"type": "string"}), "5", json!("5")),
            (json!({}), "5", json!("5")),
            (json!(true), "5", json!("5")),
            (json!({"type": "integer"}), "-5", json!(-5)),
            (json!({"type": "integer"}), "5x", json!("5x")),
            (json!({"type": "integer"}), "", json!("")),
            (json!({"type": "integer"}), "true", json!("true")),
            (json!({"type": ["integer", "null"]}), "5", json!(5)),
            (json!({"type": ["integer", "string"]}), "5", json!("5")),
            (json!({"type": "number"}), "1.5e3", json!(1500.0)),
            (json!({"type": "number"}), "NaN", json!("NaN")),
            (json!({"type": "boolean"}), "true", json!(true)),
            (json!({"type": "boolean"}), "yes", json!("yes")),
            (json!({"type": ["boolean", "array"]}), "false", json!(false)),
            (json!({"enum": [1, 2]}), "2", json!(2)),
            (json!({"enum": ["1", 2]}), "1", json!("1")),
            (json!({"enum": ["1", 2]}), "2", json!(2)),
            (json!({"enum": ["1", 2]}), "x", json!("x")),
            (
                json!({"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN"]}]}),
                "1.5",
                json!(1.5),
            ),
            (json!({"type": "string", "enum": ["a"]}), "b", json!("b")),
            (json!({"const": true}), "true", json!(true)),
            (
                json!({"anyOf": [{"type": "null"}, {"type": "integer"}]}),
                "7",
                json!(7),
            ),
        ] {
            let pair = format!("x={value}");
            let read = read(&[&pair], &json!({"x": schema}));
            assert_eq!(read, Ok(json!({"x": expected})), "{schema} {value}");
        }
    }

    #[test]
    fn refuses_pairs_for_lists_and_objects() {
        for schema in [
            json!({"type": "array"}),
            json!({"type": ["object", "null"]}),
            json!({"anyOf": [{"type": "array"}, {"type": "object"}]}),
        ] {
            let refused = read(&["x=1"], &json!({"x": schema})).unwrap_err();
            assert!(refused.contains("one JSON object"), "{refused}");
        }
    }

    #[test]
    fn parses_pairs_or_one_json_object() {
        let read = |words: &[&str]| read(words, &json!({}));
        for (words, expected) in [
            (&[][..], json!({})),
            (&[""], json!({})),
            (&[" {\"a\": \"b=c\"}"], json!({"a": "b=c"})),
            (&["[1]"], json!([1])),
            (&["\"a=b\""], json!("a=b")),
            (&["a=b"], json!({"a": "b"})),
            (
                &["a={\"b\": 1}", "c=-"],
                json!({"a": "{\"b\": 1}", "c": "-"}),
            ),
            (&["ä\n=b"], json!({"ä\n": "b"})),
        ] {
            assert_eq!(read(words), Ok(expected), "{words:?}");
        }
        let json_hint = "; JSON is one object in single quotes, without other words";
        for (words, got, hint) in [
            (&["calculator"][..], "calculator", ""),
            (&["=x"], "=x", ""),
            (&["a=b", "c"], "c", ""),
            (&["a=b", "-"], "-", ""),
            (&["a=b", "{}"], "{}", json_hint),
            (&["{a:", "b}"], "{a:", json_hint),
        ] {
            let why = format!("expected KEY=VALUE or a JSON object, but got `{got}`{hint}");
            assert_eq!(read(words), Err(why), "{words:?}");
        }
        assert_eq!(read(&["a=b", "a=c"]).unwrap_err(), "`a` is given twice");
        let broken = read(&["{a=b"]).unwrap_err();
        assert!(broken.contains("are not JSON"), "{broken}");
    }
}
