//! The lenient parser for invalid YAML.
//!
//! It cuts the text at lines that start with a key at the outermost indentation, and parses
//! each piece as YAML by itself, so that one invalid value does not affect the others. Only
//! a piece that is invalid by itself is read as text.
//!
//! [`super::text`] extracts the text of such a value.

use std::borrow::Cow;

use super::entry::{YamlEntry, YamlValue};
use super::{KEYS, text, yaml};

/// The maximum number of keys of a frontmatter, and of its `metadata`. Guards against: a
/// text of tiny keys, because each key starts a YAML parser.
const MAX_KEYS: usize = 128;

/// The result of the lenient parser.
pub(super) struct LenientReading<'a> {
    pub(super) entries: Vec<YamlEntry<'a>>,
    /// The first key whose value is invalid YAML by itself.
    pub(super) key_to_fix: Option<&'a str>,
}

/// Parses `yaml`, which starts on `first_line` of the file.
pub(super) fn entries(yaml: &str, first_line: u32) -> LenientReading<'_> {
    let mut key_to_fix = None;
    let entries = read(
        pieces(yaml, first_line),
        KeyLevel::Outermost,
        &mut key_to_fix,
    );
    LenientReading {
        entries,
        key_to_fix,
    }
}

/// The level of a key. Only maps at the outermost level are parsed key by key, so that no
/// text is parsed more than twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyLevel {
    Outermost,
    Inner,
}

fn read<'a>(
    pieces: Vec<Piece<'a>>,
    level: KeyLevel,
    key_to_fix: &mut Option<&'a str>,
) -> Vec<YamlEntry<'a>> {
    let mut entries = Vec::new();
    for piece in pieces {
        match piece.read_as_yaml() {
            Some(read) => entries.extend(read),
            None => entries.push(piece.read_leniently(level, key_to_fix)),
        }
    }
    entries
}

/// A key and everything up to the next key of the same map.
struct Piece<'a> {
    key: &'a str,
    line: u32,
    /// The text from the key on, without its indentation.
    source: &'a str,
    /// The start of the value in `source`.
    value_at: usize,
}

impl<'a> Piece<'a> {
    /// Parses the piece as YAML. Returns `None` if it is invalid or empty.
    fn read_as_yaml(&self) -> Option<Vec<YamlEntry<'a>>> {
        let read = yaml::entries(self.source, self.line).ok()?;
        (!read.is_empty()).then_some(read)
    }

    /// Reads a piece that is invalid YAML: as a map, a list or text.
    fn read_leniently(&self, level: KeyLevel, key_to_fix: &mut Option<&'a str>) -> YamlEntry<'a> {
        let value = &self.source[self.value_at..];
        let (first, rest) = value.split_once('\n').unwrap_or((value, ""));
        let first = first.trim();
        // `metadata` is the only map of the format.
        let may_be_map = level == KeyLevel::Outermost && self.key == "metadata";
        let map = may_be_map.then(|| self.lenient_map(first, rest, key_to_fix));
        let value = map.flatten().unwrap_or_else(|| {
            key_to_fix.get_or_insert(self.key);
            lenient_list(first, rest)
                .unwrap_or_else(|| YamlValue::Text(Cow::Owned(text::value(first, rest))))
        });
        YamlEntry {
            key: Cow::Borrowed(self.key),
            line: self.line,
            value,
        }
    }

    fn lenient_map(
        &self,
        first: &str,
        rest: &'a str,
        key_to_fix: &mut Option<&'a str>,
    ) -> Option<YamlValue<'a>> {
        if !(first.is_empty() || first.starts_with('#')) {
            return None;
        }
        let inner = pieces(rest, self.line.saturating_add(1));
        let entries = read(inner, KeyLevel::Inner, key_to_fix);
        let source = rest.trim();
        (!entries.is_empty()).then_some(YamlValue::Map { entries, source })
    }
}

/// Parses lines that all start with a dash, which are common in `allowed-tools`.
fn lenient_list<'a>(first: &str, rest: &'a str) -> Option<YamlValue<'a>> {
    if !first.is_empty() {
        return None;
    }
    let lines = rest
        .lines()
        .map(str::trim)
        .filter(|line| !(line.is_empty() || line.starts_with('#')));
    let items: Option<Vec<_>> = lines
        .map(|line| line.strip_prefix("- "))
        .map(|item| item.map(|item| Cow::Owned(text::unquoted(item.trim()))))
        .collect();
    let items = items.filter(|items| !items.is_empty());
    let source = rest.trim();
    items.map(|items| YamlValue::List {
        items: Some(items),
        source,
    })
}

/// Cuts text at its keys. Lines before the first key are dropped.
fn pieces(text: &str, first_line: u32) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    // The current piece, and its start in `text`.
    let mut current: Option<(Piece<'_>, usize)> = None;
    let mut outermost = None;
    let mut at = 0;
    for (line, line_number) in text.split_inclusive('\n').zip(first_line..) {
        let bare = line.trim_start_matches([' ', '\t']);
        let indent = line.len() - bare.len();
        if indent <= outermost.unwrap_or(indent) {
            let key = key(bare);
            if key.is_some()
                || current
                    .as_ref()
                    .is_some_and(|(piece, _)| ends_value(piece, bare))
            {
                pieces.extend(current.take().map(|current| with_source(current, text, at)));
            }
            if pieces.len() == MAX_KEYS {
                return pieces;
            }
            if let Some((key, value_at)) = key {
                outermost.get_or_insert(indent);
                let piece = Piece {
                    key,
                    line: line_number,
                    source: "",
                    value_at,
                };
                current = Some((piece, at + indent));
            }
        }
        at += line.len();
    }
    pieces.extend(current.map(|current| with_source(current, text, at)));
    pieces
}

/// Returns a piece with its source, up to `end` in `text`.
fn with_source<'a>((piece, start): (Piece<'a>, usize), text: &'a str, end: usize) -> Piece<'a> {
    let source = &text[start..end];
    Piece { source, ..piece }
}

/// Returns whether a line at the outermost indentation, without a key, ends a value. For
/// example, `use when: …` ends a name, but continues a description, which is prose. A list
/// item continues a list.
fn ends_value(piece: &Piece<'_>, line: &str) -> bool {
    let line = line.trim_end();
    let continues = piece.key == "description" || line.starts_with(['-', '#']);
    !continues && (line.contains(": ") || line.ends_with(':'))
}

/// Returns the key at the start of a line, and the start of its value.
fn key(line: &str) -> Option<(&str, usize)> {
    let (key, after) = match line.as_bytes().first()? {
        quote @ (b'"' | b'\'') => {
            let inner = &line[1..];
            let length = inner.bytes().position(|byte| byte == *quote)?;
            (&inner[..length], length + 2)
        }
        _ => {
            let end = line.find(|char: char| !(char.is_alphanumeric() || "_-.".contains(char)));
            let length = end.unwrap_or(line.len());
            (&line[..length], length)
        }
    };
    if !key.starts_with(|char: char| char.is_alphanumeric() || char == '_') {
        return None;
    }
    let rest = line[after..].trim_start_matches([' ', '\t']);
    let value = rest.strip_prefix(':')?;
    // `name:value` is not a key in YAML, but authors mean one if the format defines the key.
    // `https://…` is not a key.
    let is_key = value.is_empty() || value.starts_with(char::is_whitespace) || KEYS.contains(&key);
    is_key.then_some((key, line.len() - value.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns keys, lines and values as one text.
    fn shown(yaml: &str) -> String {
        let entries = entries(yaml, 2).entries;
        let shown = entries.iter().map(|entry| {
            let value = match &entry.value {
                YamlValue::Text(text) => format!("{text:?}"),
                YamlValue::Plain(text) => format!("plain {text:?}"),
                YamlValue::List { items, .. } => format!("{:?}", items.clone().unwrap_or_default()),
                YamlValue::Map { entries, .. } => entries
                    .iter()
                    .map(|entry| format!("{{{}@{}: {:?}}}", entry.key, entry.line, entry.value))
                    .collect(),
            };
            format!("{}@{} {value}\n", entry.key, entry.line)
        });
        shown.collect()
    }

    #[test]
    fn one_invalid_value_does_not_affect_the_others() {
        let cases = [
            (
                "colon in a value",
                "name: a # comment\ndescription: Use when: asked\nlicense: 'MIT'\n",
                "name@2 plain \"a\"\ndescription@3 \"Use when: asked\"\nlicense@4 \"MIT\"\n",
            ),
            (
                "crlf",
                "name: a\r\ndescription: b: c\r\n  d\r\nlicense: e\r\n",
                "name@2 plain \"a\"\ndescription@3 \"b: c d\"\nlicense@5 plain \"e\"\n",
            ),
            (
                "continuation that is not indented",
                "description: one\ntwo, three\nname: a\n",
                "description@2 \"one two, three\"\nname@4 plain \"a\"\n",
            ),
            (
                "line with a colon, but no key at its start",
                "name: a\nuse when: b: c\ndescription: d\nuse when: e: f\n",
                "name@2 plain \"a\"\ndescription@4 \"d use when: e: f\"\n",
            ),
            (
                "list of maps that is not indented",
                "hooks:\n# note: x\n- a: b\n  c: @d\nname: e\n",
                "hooks@2 \"- a: b c: @d\"\nname@6 plain \"e\"\n",
            ),
            (
                "block that is not indented",
                "description: >\none\ntwo\nname: a\n",
                "description@2 \"one two\"\nname@5 plain \"a\"\n",
            ),
            (
                "quote that swallows the next key",
                "description: \"one\nname: a\n",
                "description@2 \"one\"\nname@3 plain \"a\"\n",
            ),
            (
                "no blank after the colon",
                "name:a\ndescription:b\nhttps://x\n",
                "name@2 \"a\"\ndescription@3 \"b https://x\"\n",
            ),
            (
                "keys that are all indented",
                "  name: a\n  description: b: c\n    d: e\n",
                "name@2 plain \"a\"\ndescription@3 \"b: c d: e\"\n",
            ),
            (
                "tabs before the keys of metadata",
                "metadata:\n\tauthor: a\n\tversion: \"1\"\nname: b\n",
                "metadata@2 {author@3: Plain(\"a\")}{version@4: Text(\"1\")}\nname@5 plain \"b\"\n",
            ),
            (
                "bad value in metadata",
                "metadata:\n  author: @a\n  b: c\nname: d\n",
                "metadata@2 {author@3: Text(\"@a\")}{b@4: Plain(\"c\")}\nname@5 plain \"d\"\n",
            ),
            (
                "list of items that YAML refuses",
                "allowed-tools:\n  - *\n# c\n  - \"B\"\nname: d\n",
                "allowed-tools@2 [\"*\", \"B\"]\nname@6 plain \"d\"\n",
            ),
            (
                "key in quotes, blank before the colon",
                "\"name\" : a\ndescription: @b\n",
                "name@2 plain \"a\"\ndescription@3 \"@b\"\n",
            ),
            (
                "key without a value at the end",
                "description: a: b\nx:",
                "description@2 \"a: b\"\nx@3 plain \"\"\n",
            ),
            (
                "keys start with a letter, a digit or a low line",
                "description: a: b\n.c: d\n-e: f\n_g: h\n",
                "description@2 \"a: b .c: d -e: f\"\n_g@5 plain \"h\"\n",
            ),
            (
                "lines before the first key",
                "words\n- more\nname: a\n",
                "name@4 plain \"a\"\n",
            ),
        ];
        for (name, yaml, want) in cases {
            assert_eq!(shown(yaml), want, "{name}");
        }
    }

    #[test]
    fn reads_values_with_reserved_characters_as_text() {
        for value in [
            "@mention",
            "`code` first",
            "%percent",
            "[draft] text",
            "*",
            "*bold* text",
            "**bold** text",
            "&and",
            "!important",
            "{a} b",
            "a: b: c",
            "\"a\" b",
            "> a: b",
            "- a: b: c",
            "| a",
            "[unbalanced",
            "{unbalanced",
            "?a: b: c",
            "'it's",
        ] {
            let yaml = format!("description: {value}\nname: a\n");
            let read = entries(&yaml, 2).entries;
            let got = read.first().map(|entry| &entry.value);
            assert_eq!(got, Some(&YamlValue::Text(value.into())), "{value}");
            assert_eq!(read.len(), 2, "{value}");
        }
    }

    #[test]
    fn names_the_key_to_fix() {
        for (yaml, want) in [
            (
                "name: a\ndescription: b: c\nlicense: @d\n",
                Some("description"),
            ),
            ("metadata:\n  author: @a\n", Some("author")),
            ("metadata:\n\tauthor: a\n", None),
            ("metadata: @a\n", Some("metadata")),
            ("words\nname: a\n", None),
        ] {
            assert_eq!(entries(yaml, 2).key_to_fix, want, "{yaml:?}");
        }
    }

    #[test]
    fn does_not_read_maps_inside_maps() {
        let yaml = "metadata:\n metadata:\n  metadata:\n   a: @b\n";
        let want = "metadata@2 {metadata@3: Text(\"metadata: a: @b\")}\n";
        assert_eq!(shown(yaml), want);
    }

    #[test]
    fn does_not_read_keys_beyond_the_limit() {
        let yaml = "a: b: c\n".repeat(MAX_KEYS + 1);
        assert_eq!(entries(&yaml, 2).entries.len(), MAX_KEYS);
    }
}
