//! Escapes text for people that may contain strings from a guest, a skill, a caller or a peer. The
//! escaped text cannot move the cursor, hide text, change the direction of a line or start a new
//! line.
//!
//! `hidden` defines the hidden characters. Answers for models and programs are not escaped.

use std::fmt;

pub use super::hidden::is_hidden;

/// One line for a person: a text in which line breaks and [hidden characters](is_hidden)
/// are escaped, such as `\n` and `\u{200b}`.
///
/// Backslashes are not escaped, so escaping a line again does not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(String);

impl Line {
    /// Escapes a text.
    pub fn new(text: impl fmt::Display) -> Self {
        Self(escape(text.to_string(), is_hidden))
    }

    /// Escapes the first `max` characters of a text. Messages quote texts of unknown length with
    /// this.
    pub fn start(text: &str, max: usize) -> Self {
        let mut chars = text.chars();
        let start: String = chars.by_ref().take(max).collect();
        let end = if chars.next().is_some() { "…" } else { "" };
        Self::new(start + end)
    }

    /// Returns the line, without a line break at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Replaces characters by their escapes.
fn escape(text: String, is_escaped: impl Fn(char) -> bool) -> String {
    if !text.contains(&is_escaped) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if is_escaped(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Escapes the hidden characters of a document, except line breaks and tabs.
pub fn escape_document(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    escape(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

/// Escapes the hidden characters in the strings of a JSON text, without changing its value.
pub fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // In JSON these only occur between values.
            '\n' | '\t' => escaped.push(c),
            '\r' => escaped.push(' '),
            c if is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    /// Returns a pattern of the hidden characters. Its tables are not those of [`is_hidden`].
    fn hidden() -> Regex {
        Regex::new(
            r"^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\x{2800}\x{13441}\x{13442}\x{16fe4}\x{1d159}]$",
        )
        .unwrap()
    }

    #[test]
    fn hidden_characters_match_the_unicode_tables() {
        let hidden = hidden();
        let wrong: Vec<String> = ('\0'..=char::MAX)
            .filter(|c| is_hidden(*c) != hidden.is_match(c.encode_utf8(&mut [0; 4])))
            .map(|c| c.escape_unicode().to_string())
            .collect();
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn text_of_any_language_is_unchanged() {
        for text in [
            "plain \\n text",
            "数据分析，表格",
            "データを　読む",
            "يقرأ الملفات",
            "קורא קבצים",
            "हिन्दी ไทย தமிழ்",
            "caf\u{e9} cafe\u{301}",
            "🚀👍🏽🇩🇪",
            "\u{a0}½…",
        ] {
            assert_eq!(Line::new(text).as_str(), text);
            assert_eq!(escape_document(text), text);
            assert_eq!(escape_json(text), text);
        }
    }

    #[test]
    fn control_and_invisible_characters_become_visible() {
        for (text, line, document) in [
            ("a\n\tb", "a\\n\\tb", "a\n\tb"),
            ("a\r\nb", "a\\r\\nb", "a\nb"),
            ("\u{1b}[2J", "\\u{1b}[2J", "\\u{1b}[2J"),
            ("a\rb\u{9b}", "a\\rb\\u{9b}", "a\\rb\\u{9b}"),
            (
                "x\u{202e}\u{e0041}",
                "x\\u{202e}\\u{e0041}",
                "x\\u{202e}\\u{e0041}",
            ),
        ] {
            assert_eq!(Line::new(text).as_str(), line);
            assert_eq!(escape_document(text), document);
        }
    }

    /// Generates texts in which about half of the characters are hidden.
    fn text() -> impl Strategy<Value = String> {
        let hidden: Vec<char> = ('\0'..=char::MAX).filter(|c| is_hidden(*c)).collect();
        // Most hidden characters are for private use, so the first ones get their own strategy.
        let (few, many) = (hidden[..500].to_vec(), hidden);
        let any = prop_oneof![
            any::<char>(),
            proptest::sample::select(few),
            proptest::sample::select(many)
        ];
        proptest::collection::vec(any, 0..40).prop_map(|text| text.into_iter().collect())
    }

    proptest! {
        #[test]
        fn no_hidden_character_remains(text in text()) {
            let hidden = hidden();
            let is_hidden = |c: char| hidden.is_match(c.encode_utf8(&mut [0; 4]));
            let line = Line::new(&text);
            prop_assert!(!line.as_str().contains(is_hidden));
            prop_assert_eq!(&Line::new(&line), &line);
            let document = escape_document(&text);
            prop_assert!(!document.contains(|c| is_hidden(c) && c != '\n' && c != '\t'));
            prop_assert_eq!(document.matches('\n').count(), text.matches('\n').count());
        }

        #[test]
        fn escaped_json_has_the_same_value(text in text()) {
            let value = serde_json::json!({ &text: [&text] });
            for written in [format!("{value}"), format!("{value:#}").replace('\n', "\r\n\t")] {
                let escaped = escape_json(&written);
                prop_assert!(!escaped.contains(|c| is_hidden(c) && c != '\n' && c != '\t'));
                let read: serde_json::Value = serde_json::from_str(&escaped).unwrap();
                prop_assert_eq!(&read, &value);
            }
        }
    }
}
