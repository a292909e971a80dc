//! The answer for programs: the tool's record as JSON, with the answer's text as a property.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;

use skillhost_skills::text::json_string;
use skillhost_skills::text::raw_json::RawJson;

/// The maximum number of properties of a tool's record. Guards against: millions of them,
/// which take twenty times their size when parsed.
const MAX_PROPERTIES: usize = 100_000;

/// Returns the record of an output.
///
/// `details` comes from a guest. It becomes a string beside the text if it is not a JSON object or
/// has too many properties. Values stay verbatim, because parsing them could take a hundred times
/// their size. `fields` are the host's fields, as JSON; they replace the tool's fields of the same
/// name.
pub(crate) fn assemble(
    details: Option<&str>,
    text_property: Option<&str>,
    text: &str,
    fields: &[(&str, String)],
) -> String {
    let mut pairs = match details {
        Some(details) => pairs(details)
            .unwrap_or_else(|| vec![("details".to_owned(), RecordPart::Text(details))]),
        None => Vec::new(),
    };
    let property = text_property.or(details.is_none().then_some("text"));
    if let Some(property) = property {
        // Sets the tool's property for the text, and removes later properties with its name.
        // Parsers use the last one, so a program and the model would read different texts.
        let mut text = Some(RecordPart::Text(text));
        pairs.retain_mut(|(key, value)| {
            key != property || text.take().map(|text| *value = text).is_some()
        });
        pairs.extend(text.map(|text| (property.to_owned(), text)));
    }
    // A tool must not be able to give a property the name of a host's field.
    pairs.retain(|(key, _)| !fields.iter().any(|(host_key, _)| host_key == key));
    let fields = fields.iter();
    pairs.extend(fields.map(|(key, json)| ((*key).to_owned(), RecordPart::Json(json))));
    object(&pairs)
}

/// Returns the record of a failure.
pub(crate) fn assemble_failure(details: Option<&str>, message: &str) -> String {
    match details.and_then(pairs) {
        Some(pairs) => object(&pairs),
        None => object(&[("error".to_owned(), RecordPart::Text(message))]),
    }
}

/// A value of a record.
enum RecordPart<'a> {
    /// Verbatim JSON.
    Json(&'a str),
    /// A text, which is written as a string.
    Text(&'a str),
}

impl RecordPart<'_> {
    /// Returns the approximate size in bytes.
    fn capacity(&self) -> usize {
        match self {
            Self::Json(json) => json.len(),
            Self::Text(text) => json_string::capacity_for(text),
        }
    }
}

/// Writes a JSON object. Texts can be large, so they are written without a copy.
fn object(pairs: &[(String, RecordPart<'_>)]) -> String {
    let capacity = pairs
        .iter()
        .map(|(key, part)| key.len() + part.capacity() + 8);
    let mut json = Vec::with_capacity(capacity.sum::<usize>() + 2);
    json.push(b'{');
    for (index, (key, part)) in pairs.iter().enumerate() {
        if index > 0 {
            json.extend_from_slice(b", ");
        }
        json_string::push(&mut json, key);
        json.extend_from_slice(b": ");
        match part {
            RecordPart::Json(value) => json.extend_from_slice(value.as_bytes()),
            RecordPart::Text(text) => json_string::push(&mut json, text),
        }
    }
    json.push(b'}');
    String::from_utf8(json).unwrap_or_default()
}

/// Returns the keys and verbatim values of a JSON object. Returns `None` if the text is
/// another value, or has too many properties.
fn pairs(json: &str) -> Option<Vec<(String, RecordPart<'_>)>> {
    let json = RawJson::new(json).ok().filter(|json| json.is_object())?;
    let members = json.members().take(MAX_PROPERTIES + 1);
    let pairs = members.map(|(key, value)| (key.into_owned(), RecordPart::Json(value.get())));
    let pairs: Vec<_> = pairs.collect();
    (pairs.len() <= MAX_PROPERTIES).then_some(pairs)
}

/// Returns JSON on one line, with a space after each comma and colon as in the contracts'
/// examples.
pub(crate) fn to_string(value: &impl Serialize) -> String {
    let mut bytes = Vec::with_capacity(128);
    // Serialising a `Value` or our own structs to a `Vec` cannot fail.
    if write(&mut bytes, value).is_err() {
        return String::new();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Writes JSON like [`to_string`], to a writer that can fail.
pub(crate) fn write(to: &mut impl io::Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(to, Spaced))
}

/// A formatter of JSON with a space after each comma and colon.
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
    fn puts_text_into_its_property() {
        let details = r#"{"a":1,"content":null,"z":{"b":[2]}}"#;
        assert_eq!(
            assemble(Some(details), Some("content"), "é\n", &[]),
            r#"{"a": 1, "content": "é\n", "z": {"b":[2]}}"#
        );
    }

    #[test]
    fn text_replaces_every_property_of_its_name() {
        let details = r#"{"content":1,"a":2,"content":"other","content":null}"#;
        assert_eq!(
            assemble(Some(details), Some("content"), "text", &[]),
            r#"{"content": "text", "a": 2}"#
        );
    }

    #[test]
    fn text_without_details_is_still_a_record() {
        assert_eq!(assemble(None, None, "x", &[]), r#"{"text": "x"}"#);
        assert_eq!(assemble(None, Some("out"), "x", &[]), r#"{"out": "x"}"#);
    }

    #[test]
    fn host_fields_replace_tool_fields() {
        let fields = [("files", "[]".to_owned())];
        let details = r#"{"files":1,"a":2,"files":3}"#;
        assert_eq!(
            assemble(Some(details), None, "", &fields),
            r#"{"a": 2, "files": []}"#
        );
        assert_eq!(
            assemble(None, Some("files"), "x", &fields),
            r#"{"files": []}"#
        );
    }

    #[test]
    fn details_without_object_become_string() {
        for details in ["[1]", "nonsense", "\"text\"", "", "{\"a\":}", "{} x"] {
            let shown = to_string(&details);
            let record = assemble(Some(details), Some("content"), "x", &[]);
            assert_eq!(
                record,
                format!("{{\"details\": {shown}, \"content\": \"x\"}}")
            );
            assert_eq!(
                assemble_failure(Some(details), "why"),
                r#"{"error": "why"}"#
            );
        }
    }

    #[test]
    fn details_with_too_many_properties_become_string() {
        let properties = |count: usize| format!("{{{}\"a\":0}}", "\"a\":0,".repeat(count - 1));
        let max = assemble(Some(&properties(MAX_PROPERTIES)), None, "", &[]);
        assert!(max.starts_with(r#"{"a": 0, "#));
        let more = assemble(Some(&properties(MAX_PROPERTIES + 1)), None, "", &[]);
        assert!(more.starts_with(r#"{"details": "{"#));
    }
}
