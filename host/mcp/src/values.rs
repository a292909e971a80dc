//! Counting the values in JSON without building them: text that is small can be
//! large once it is read. Two megabytes of `[],` are seven hundred thousand
//! lists, which take 160 MiB and a second.

/// The most values in a message, twice as many as the largest arguments of a
/// tool have. Guards against: a small message that takes much memory.
pub(crate) const MESSAGE_VALUES: usize = 20_000;

/// Returns whether JSON has more values than a message may have.
pub(crate) fn too_many(json: &[u8]) -> bool {
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
}
