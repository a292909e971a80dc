//! How many values JSON has, told without building any of them: what is small
//! as text can be large when it is read. Two megabytes of `[],` are seven
//! hundred thousand lists, which take 160 MiB and a second.

/// Most values in a message. Meets: a peer that sends such a text. The largest
/// arguments that a tool can be given have half as many.
pub(crate) const MESSAGE_VALUES: usize = 20_000;

/// Whether a text has more values than a message may have, if it is JSON.
pub(crate) fn too_many(json: &[u8]) -> bool {
    json.len() > MESSAGE_VALUES && count(json) > MESSAGE_VALUES
}

/// How many values JSON can have at most: one for each mark that a value, or a
/// key and its value, can follow.
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
    fn values_are_counted_outside_of_strings() {
        for (json, values) in [
            ("1", 1),
            ("{}", 2),
            (r#"{"a": 1, "b": 2}"#, 3),
            (r#"{"a": [1, 2, "x, [y]: \" {", null]}"#, 6),
            (r#"["\\", "\\\"", ","]"#, 4),
        ] {
            assert_eq!(count(json.as_bytes()), values, "{json}");
        }
    }

    #[test]
    fn a_message_has_so_many_and_no_more() {
        let list = |items: usize| format!("[{}1]", "1,".repeat(items - 1));
        assert!(!too_many(list(MESSAGE_VALUES - 1).as_bytes()));
        assert!(too_many(list(MESSAGE_VALUES).as_bytes()));
        assert!(too_many("{\"a\":".repeat(MESSAGE_VALUES).as_bytes()));
        assert!(!too_many(
            format!("[\"{}\"]", ",".repeat(MESSAGE_VALUES)).as_bytes()
        ));
    }
}
