//! Counting the values in JSON without building them: text that is small can be
//! large once it is read. Two megabytes of `[],` are seven hundred thousand
//! lists, which take 160 MiB and a second.

use serde_json::{Map, Value};

/// The most values in a message, twice as many as the largest arguments of a
/// tool have. Guards against: a small message that takes much memory.
pub(crate) const MESSAGE_VALUES: usize = 20_000;

/// The bytes that a value takes at most besides its text, as an object of one field, which has
/// a table of its own.
const VALUE_BYTES: usize = 500;

/// Returns the most bytes that so many values take in memory.
pub(crate) fn bytes_of(values: usize) -> usize {
    values * VALUE_BYTES
}

/// Returns the most bytes that a value takes in memory, with all in it.
pub(crate) fn size(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(parts) => parts.iter().map(size).sum(),
            Value::Object(parts) => size_of_object(parts),
            _ => 0,
        }
}

/// The same for an object.
pub(crate) fn size_of_object(object: &Map<String, Value>) -> usize {
    let parts = object.iter();
    parts.map(|(name, part)| name.len() + size(part)).sum()
}

/// Returns whether JSON has more values than a message may have.
pub fn too_many(json: &[u8]) -> bool {
    // A short text is not counted: each value takes a byte.
    json.get(MESSAGE_VALUES).is_some() && count(json) > MESSAGE_VALUES
}

/// Returns the most values that JSON can have: one for each character that a
/// value, or a key and its value, can follow.
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
    fn bounds_the_values_of_a_message() {
        let list = |items: usize| format!("[{}1]", "1,".repeat(items - 1));
        assert!(!too_many(list(MESSAGE_VALUES - 1).as_bytes()));
        assert!(too_many(list(MESSAGE_VALUES).as_bytes()));
        assert!(too_many("{\"a\":".repeat(MESSAGE_VALUES).as_bytes()));
        assert!(!too_many(
            format!("[\"{}\"]", ",".repeat(MESSAGE_VALUES)).as_bytes()
        ));
    }

    #[test]
    fn a_value_takes_memory_for_itself_and_for_its_text() {
        for (json, values, text) in [
            ("1", 1, 0),
            ("[1, []]", 3, 0),
            (r#"{"ab": ["abc", {"d": null}]}"#, 5, 6),
        ] {
            let value = serde_json::from_str(json).unwrap();
            assert_eq!(size(&value), bytes_of(values) + text, "{json}");
        }
    }
}
