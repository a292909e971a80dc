//! Turns the entries of a parser into fields: assigns them by key, checks the types of their
//! values, and converts values of other types.
//!
//! `check` has the specification's limits on text, such as the length of a name.

use super::entry::{YamlEntry, YamlValue};
use super::{Field, Frontmatter, Pair, Problem, ProblemKind, quoted};

/// Assigns entries to fields. Uses the first of several entries with the same key.
pub(super) fn assemble(entries: Vec<YamlEntry<'_>>, problems: &mut Vec<Problem>) -> Frontmatter {
    let mut found = Frontmatter::default();
    for entry in entries {
        match &*entry.key {
            "name" => set_text(&mut found.name, entry, problems),
            "description" => set_text(&mut found.description, entry, problems),
            "license" => set_text(&mut found.license, entry, problems),
            "compatibility" => set_text(&mut found.compatibility, entry, problems),
            "allowed-tools" => set_tools(&mut found.allowed_tools, entry, problems),
            "metadata" => set_metadata(&mut found.metadata, entry, problems),
            _ => add_unknown(&mut found.unknown, entry, problems),
        }
    }
    found
}

/// Sets a field that must be text.
fn set_text(field: &mut Option<Field<String>>, entry: YamlEntry<'_>, problems: &mut Vec<Problem>) {
    if let Some(first) = field {
        problems.push(duplicate(&entry.key, entry.line, first.line));
        return;
    }
    let value = text_of(entry.value, &entry.key, entry.line, problems);
    let line = entry.line;
    *field = Some(Field { value, line });
}

/// Sets `allowed-tools`, which must be one text. Also accepts a list, as in many skills.
fn set_tools(field: &mut Option<Field<String>>, entry: YamlEntry<'_>, problems: &mut Vec<Problem>) {
    let YamlValue::List { items, source } = &entry.value else {
        return set_text(field, entry, problems);
    };
    if let Some(first) = field {
        problems.push(duplicate(&entry.key, entry.line, first.line));
        return;
    }
    let (kind, message, value) = match items {
        Some(items) => (
            ProblemKind::ToolList,
            if items.iter().any(|item| has_blank(item)) {
                "`allowed-tools` is a list, not text with blanks between the tools: some names of \
                 tools contain blanks"
            } else {
                "`allowed-tools` is a list: write one text, with blanks between the tools"
            },
            items.join(" "),
        ),
        None => (
            ProblemKind::WrongType,
            "`allowed-tools` is a list whose items are not all text",
            (*source).to_owned(),
        ),
    };
    let line = entry.line;
    problems.push(problem(kind, line, message.to_owned()));
    *field = Some(Field { value, line });
}

/// Returns whether a tool has a blank outside parentheses.
fn has_blank(tool: &str) -> bool {
    tool.split('(')
        .next()
        .unwrap_or_default()
        .trim()
        .contains(' ')
}

/// Sets `metadata`, a map of keys to text.
fn set_metadata(
    field: &mut Option<Field<Vec<Pair>>>,
    entry: YamlEntry<'_>,
    problems: &mut Vec<Problem>,
) {
    let line = entry.line;
    if let Some(first) = field {
        problems.push(duplicate(&entry.key, line, first.line));
        return;
    }
    let what = match entry.value {
        YamlValue::Map { entries, source } => {
            problems.extend(source.starts_with('{').then(|| braces(line)));
            let value = pairs(entries, problems);
            *field = Some(Field { value, line });
            return;
        }
        // Nothing after the colon is an empty map.
        YamlValue::Plain(text) if text.is_empty() => {
            let value = Vec::new();
            *field = Some(Field { value, line });
            return;
        }
        YamlValue::List { .. } => "a list",
        YamlValue::Text(_) | YamlValue::Plain(_) => "text",
    };
    let message = format!("`metadata` is {what}, not a map of keys to text");
    problems.push(problem(ProblemKind::WrongType, line, message));
}

fn pairs(entries: Vec<YamlEntry<'_>>, problems: &mut Vec<Problem>) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::with_capacity(entries.len());
    for YamlEntry { key, line, value } in entries {
        let path = format!("metadata.{key}");
        if let Some(first) = pairs.iter().find(|pair| pair.key == key) {
            problems.push(duplicate(&path, line, first.line));
            continue;
        }
        let is_bare = matches!(value, YamlValue::Plain(_));
        let value = text_of(value, &path, line, problems);
        let key = key.into_owned();
        pairs.push(Pair {
            key,
            value,
            is_bare,
            line,
        });
    }
    pairs
}

/// Adds a key that the format does not define.
fn add_unknown(pairs: &mut Vec<Pair>, entry: YamlEntry<'_>, problems: &mut Vec<Problem>) {
    if let Some(first) = pairs.iter().find(|pair| pair.key == entry.key) {
        problems.push(duplicate(&entry.key, entry.line, first.line));
        return;
    }
    let is_bare = matches!(entry.value, YamlValue::Plain(_));
    let value = match entry.value {
        YamlValue::Text(text) | YamlValue::Plain(text) => text.trim().to_owned(),
        YamlValue::List { source, .. } | YamlValue::Map { source, .. } => source.to_owned(),
    };
    pairs.push(Pair {
        key: entry.key.into_owned(),
        value,
        is_bare,
        line: entry.line,
    });
}

/// Returns a value as text, and adds a problem if it is not text.
fn text_of(value: YamlValue<'_>, path: &str, line: u32, problems: &mut Vec<Problem>) -> String {
    let (kind, what, advice, text) = match value {
        YamlValue::Text(text) => return text.trim().to_owned(),
        YamlValue::Plain(text) => match ScalarType::of(&text) {
            ScalarType::Text => return text.trim().to_owned(),
            ScalarType::Null => (
                ProblemKind::NotText,
                "null".to_owned(),
                ": put it in quotes, or leave it out",
                String::new(),
            ),
            ScalarType::Other(what) => (
                ProblemKind::NotText,
                format!("{what}, {}", quoted(&text)),
                ": put it in quotes",
                text.into_owned(),
            ),
        },
        YamlValue::List { source, .. } => {
            let what = "a list".to_owned();
            (ProblemKind::WrongType, what, "", source.to_owned())
        }
        YamlValue::Map { source, .. } => {
            let what = "a map".to_owned();
            (ProblemKind::WrongType, what, "", source.to_owned())
        }
    };
    let message = format!("{} is {what}, not text{advice}", quoted(path));
    problems.push(problem(kind, line, message));
    text
}

/// The type of an unquoted scalar by the core schema of YAML 1.2, with the booleans and dates
/// of YAML 1.1, because other hosts may use 1.1.
enum ScalarType {
    Text,
    Null,
    Other(&'static str),
}

impl ScalarType {
    fn of(text: &str) -> Self {
        match text {
            "~" | "null" | "Null" | "NULL" => Self::Null,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" | "yes" | "Yes" | "YES"
            | "no" | "No" | "NO" | "on" | "On" | "ON" | "off" | "Off" | "OFF" => {
                Self::Other("a boolean")
            }
            _ if is_number(text) => Self::Other("a number"),
            _ if is_date(text) => Self::Other("a date"),
            // A key without a value is an empty text, which `check` reports.
            _ => Self::Text,
        }
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(
        unsigned,
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    ) {
        return true;
    }
    let has_digits_after = |prefix, radix| {
        let digits: Option<&str> = text.strip_prefix(prefix);
        digits.is_some_and(|text| !text.is_empty() && text.chars().all(|char| char.is_digit(radix)))
    };
    // Rust also parses words such as `infinity` as numbers.
    let starts_as_number = unsigned.starts_with(|char: char| char.is_ascii_digit() || char == '.');
    has_digits_after("0x", 16)
        || has_digits_after("0o", 8)
        || starts_as_number && unsigned.parse::<f64>().is_ok()
}

/// Returns whether a text has the form `2024-01-31`.
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

fn duplicate(path: &str, line: u32, first_line: u32) -> Problem {
    let message = format!(
        "{} occurs twice: the one on line {first_line} counts",
        quoted(path)
    );
    problem(ProblemKind::DuplicateKey, line, message)
}

fn braces(line: u32) -> Problem {
    let message = "`metadata` is in braces, which the reference validator refuses: put each key \
                   on its own line";
    problem(ProblemKind::Braces, line, message.to_owned())
}

fn problem(kind: ProblemKind, line: u32, message: String) -> Problem {
    Problem {
        kind,
        line,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_numbers_dates_and_text() {
        for number in [
            "0", "-1", "+1.5", "1.", ".5", "1e3", "0x1F", "0o17", "-.inf", ".nan", "007",
        ] {
            assert!(is_number(number), "{number}");
        }
        for text in [
            "inf", "nan", "infinity", "1.2.3", "v1", "-", ".", "0x", "0xg", "1_000", "+-1", "1 2",
            "e3",
        ] {
            assert!(!is_number(text), "{text}");
        }
        assert!(is_date("2024-01-31"));
        for text in [
            "2024-01-3",
            "2024/01/31",
            "20240-1-31",
            "2024-01-31T",
            "éé-01-31",
        ] {
            assert!(!is_date(text), "{text}");
        }
    }
}
