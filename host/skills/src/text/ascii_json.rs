//! Writes JSON in printable ASCII: other characters are escaped.
//!
//! Guards against: text that moves the cursor in the terminal of whoever reads the file, and
//! characters that are not allowed in headers.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Returns a value as JSON without blanks or a line feed.
///
/// # Errors
///
/// If the value cannot be written as JSON, for example because a key is not a string.
pub fn to_string(value: &impl Serialize) -> serde_json::Result<String> {
    // Enough for most records of the audit log.
    let mut json = Vec::with_capacity(1280);
    value.serialize(&mut Serializer::with_formatter(&mut json, Ascii))?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

/// Returns the maximum number of bytes that a character has in a string of such JSON.
pub fn escaped_len(c: char) -> usize {
    match c {
        '"' | '\\' => 2,
        ' '..='~' => 1,
        _ => 6 * c.len_utf16(),
    }
}

struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for c in fragment.chars() {
            if matches!(c, ' '..='~') {
                write!(out, "{c}")?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_all_but_printable_ascii() {
        for (text, expected) in [
            ("a b~", r#""a b~""#),
            ("\"\\", r#""\"\\""#),
            ("é\u{7f}\u{202e}", r#""\u00e9\u007f\u202e""#),
            ("😀", r#""\ud83d\ude00""#),
        ] {
            let json = to_string(&text).unwrap();
            assert_eq!(json, expected);
            let length: usize = text.chars().map(escaped_len).sum();
            assert_eq!(length + 2, json.len(), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
