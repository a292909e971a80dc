//! The program's form of an answer: the tool's own record with the text put
//! back where it belongs, and its JSON.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Value, json};

/// The record of an output. `details` comes from a guest: what is no JSON
/// object is shown as a string beside the text, and not believed.
pub(crate) fn assemble(details: Option<&str>, text_property: Option<&str>, text: &str) -> Value {
    let Some(details) = details else {
        return json!({ text_property.unwrap_or("text"): text });
    };
    let mut record = match serde_json::from_str(details) {
        Ok(Value::Object(record)) => record,
        _ => Map::from_iter([("details".to_owned(), details.into())]),
    };
    if let Some(property) = text_property {
        // In its place, if the tool kept one.
        record.insert(property.to_owned(), text.into());
    }
    Value::Object(record)
}

/// The record of a failure.
pub(crate) fn assemble_failure(details: Option<&str>, message: &str) -> Value {
    match details.map(serde_json::from_str) {
        Some(Ok(record @ Value::Object(_))) => record,
        _ => json!({ "error": message }),
    }
}

/// JSON on one line, with a space after each comma and colon: the contracts'
/// examples are written so.
pub(crate) fn to_string(value: &impl Serialize) -> String {
    let mut bytes = Vec::with_capacity(128);
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    // A `Value` and our own structs always serialise, and a `Vec` takes all.
    if value.serialize(&mut serializer).is_err() {
        return String::new();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        out.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_back_to_the_place_that_was_kept_for_it() {
        let record = assemble(
            Some(r#"{"a":1,"content":null,"z":2}"#),
            Some("content"),
            "é\n",
        );
        assert_eq!(to_string(&record), r#"{"a": 1, "content": "é\n", "z": 2}"#);
    }

    #[test]
    fn text_without_details_is_still_a_record() {
        assert_eq!(to_string(&assemble(None, None, "x")), r#"{"text": "x"}"#);
        assert_eq!(
            to_string(&assemble(None, Some("out"), "x")),
            r#"{"out": "x"}"#
        );
    }

    #[test]
    fn details_that_are_no_object_are_not_believed() {
        for details in ["[1]", "nonsense", "\"text\"", ""] {
            let record = assemble(Some(details), Some("content"), "x");
            assert_eq!(record, json!({"details": details, "content": "x"}));
            assert_eq!(
                assemble_failure(Some(details), "why"),
                json!({"error": "why"})
            );
        }
    }
}
