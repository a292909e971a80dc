//! The number of values in JSON, and the memory that they take once they are parsed.
//!
//! Small text can become large: two megabytes of `[],` are seven hundred thousand arrays,
//! which take 160 MiB of memory and a second of time.

use serde_json::{Map, Value};

/// The maximum number of bytes that a value takes besides its text. An object with one field takes
/// the most, because it has a hash table of its own.
const VALUE_BYTES: usize = 500;

/// Returns the maximum number of bytes that this number of values takes in memory, besides their
/// text.
pub(crate) fn memory_for(values: usize) -> usize {
    values * VALUE_BYTES
}

/// Returns the maximum number of bytes that a value takes in memory, with everything in it.
pub(crate) fn memory_of(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(memory_of).sum(),
            Value::Object(members) => memory_of_members(members),
            _ => 0,
        }
}

/// Returns the maximum number of bytes that the members of an object take in memory.
pub(crate) fn memory_of_members(object: &Map<String, Value>) -> usize {
    let members = object.iter();
    members
        .map(|(name, value)| name.len() + memory_of(value))
        .sum()
}

/// Returns the maximum number of values that JSON text can have, without parsing it.
///
/// Counts `[`, `{` and `,` outside of strings: every value or member, except the first value,
/// follows one of them.
pub(crate) fn count(json: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' | b',' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_values_outside_of_strings() {
        for (json, values) in [
            ("1", 1),
            ("{}", 2),
            (r#"{"a": 1, "b": 2}"#, 3),
            (r#"{"a": [1, 2, "x, [y]: \" {", null]}"#, 6),
            (r#"["\\", "\\\"", ","]"#, 4),
            (r#"["\"", 1]"#, 3),
        ] {
            assert_eq!(count(json.as_bytes()), values, "{json}");
        }
    }

    #[test]
    fn measures_values_and_their_text() {
        for (json, values, text) in [
            ("1", 1, 0),
            ("[1, []]", 3, 0),
            (r#"{"ab": ["abc", {"d": null}]}"#, 5, 6),
        ] {
            let value = serde_json::from_str(json).unwrap();
            assert_eq!(memory_of(&value), memory_for(values) + text, "{json}");
        }
    }
}
