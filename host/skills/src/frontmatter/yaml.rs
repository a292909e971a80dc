//! The strict parser for frontmatter in valid YAML.
//!
//! Only this file and `yaml/json.rs`, which turns the same events into JSON, use the YAML
//! crate. They use the parser's events instead of serde, which would lose three things: the
//! line of each key, the source text of a value (`1.10` is not a number here), and the
//! difference between quoted and plain scalars.
//!
//! Refuses anchors, aliases and tags. No skill needs them, the reference validator
//! refuses them too, and authors mean `&this` and `!that` at the start of a description as
//! text. This also prevents a "billion laughs" expansion.
//!
//! [`super::fields`] has the meaning of keys, and [`super::lenient`] parses invalid YAML.

mod json;

use std::borrow::Cow;

use granit_parser::{self, Event, Parser, ScalarStyle, Span, StrInput};

use super::entry::{Items, YamlEntry, YamlValue};

pub(super) use json::object;

/// The maximum number of parser events, two for each `key: value`. Guards against: a text
/// of tiny keys, which takes many times its size in memory.
const MAX_EVENTS: usize = 2048;

/// The maximum nesting of lists and maps. Guards against: a text of opening brackets. Real
/// skills have two or three levels.
const MAX_NESTING: usize = 32;

/// The reason why frontmatter is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: u32,
    pub(super) message: String,
}

/// Parses `yaml`, which starts on `first_line` of the file, as one map. Text with only blanks and
/// comments is an empty map.
pub(super) fn entries(yaml: &str, first_line: u32) -> Result<Vec<YamlEntry<'_>>, YamlError> {
    document(yaml, first_line, |events| Ok(events.mapping(0)?.0))
}

/// Parses a text as one document with one map.
fn document<'a, T: Default>(
    yaml: &'a str,
    first_line: u32,
    mapping: impl FnOnce(&mut YamlEvents<'a>) -> Result<T, YamlError>,
) -> Result<T, YamlError> {
    let mut events = YamlEvents::new(yaml, first_line);
    events.next()?; // the start of the stream
    if matches!(events.next()?.0, Event::StreamEnd) {
        return Ok(T::default());
    }
    let (event, span) = events.next()?;
    let read = match event {
        Event::MappingStart(..) => mapping(&mut events)?,
        _ => return Err(events.error_at(&span, "expected `key: value` lines")),
    };
    events.next()?; // the end of the document
    let (event, span) = events.next()?;
    if !matches!(event, Event::StreamEnd) {
        return Err(events.error_at(&span, "a second document starts here"));
    }
    Ok(read)
}

/// The parser's events with their lines, up to a limit.
struct YamlEvents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    source: &'a str,
    events_left: usize,
    first_line: u32,
    /// A byte offset and its line. Events are in the order of the text, so counting
    /// continues from here and reads every byte once.
    counted: (usize, u32),
}

impl<'a> YamlEvents<'a> {
    fn new(source: &'a str, first_line: u32) -> Self {
        let options = granit_parser::options! {
            disallow_directives: true,
            emit_comments: false,
            flow_nesting_limit: MAX_NESTING,
            block_nesting_limit: MAX_NESTING,
        };
        Self {
            parser: Parser::new_from_str_with_options(source, options),
            source,
            events_left: MAX_EVENTS,
            first_line,
            counted: (0, first_line),
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        let Some(left) = self.events_left.checked_sub(1) else {
            return Err(self.error_here("too many keys and values"));
        };
        self.events_left = left;
        match self.parser.next() {
            Some(Ok((event, span))) if has_anchor_or_tag(&event) => {
                Err(self.error_at(&span, "anchors, aliases and tags are not allowed here"))
            }
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let offset = error.marker().byte_offset().unwrap_or(0);
                Err(YamlError {
                    line: line_of(self.source, offset, self.first_line),
                    message: error.info(),
                })
            }
            None => Err(self.error_here("the text ends too early")),
        }
    }

    /// Returns the entries of a map after its start event, and the offset of its end.
    /// `depth` is the number of enclosing maps.
    fn mapping(&mut self, depth: usize) -> Result<(Vec<YamlEntry<'a>>, usize), YamlError> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok((entries, end(&span))),
                Event::Scalar(text, ..) => text,
                _ => return Err(self.error_at(&span, "a key must be text")),
            };
            let line = self.line(start(&span));
            let value = self.value(end(&span), depth)?;
            entries.push(YamlEntry { key, line, value });
        }
    }

    /// Returns the value of the key that ends at `key_end`.
    fn value(&mut self, key_end: usize, depth: usize) -> Result<YamlValue<'a>, YamlError> {
        let (event, span) = self.next()?;
        Ok(match event {
            Event::Scalar(text, style, ..) => scalar(text, style, &span),
            Event::SequenceStart(..) => {
                let (items, list_end) = self.list()?;
                let source = self.source_between(key_end, list_end);
                YamlValue::List { items, source }
            }
            Event::MappingStart(..) => {
                let (entries, map_end) = match depth {
                    0 => self.mapping(depth + 1)?,
                    // The keys of a nested map are not needed.
                    _ => (Vec::new(), self.skip()?),
                };
                let source = self.source_between(key_end, map_end);
                YamlValue::Map { entries, source }
            }
            _ => return Err(self.error_at(&span, "a value is missing")),
        })
    }

    /// Returns the items of a list after its start event, and the offset of its end. The items are
    /// `None` if some are not scalars.
    fn list(&mut self) -> Result<(Items<'a>, usize), YamlError> {
        let mut items = Some(Vec::new());
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::SequenceEnd => return Ok((items, end(&span))),
                Event::Scalar(text, ..) => {
                    if let Some(items) = &mut items {
                        items.push(text);
                    }
                }
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    items = None;
                    self.skip()?;
                }
                _ => return Err(self.error_at(&span, "a list item is missing")),
            }
        }
    }

    /// Skips a collection after its start event, and returns the offset of its end. Uses a loop,
    /// so that deep nesting needs no stack.
    fn skip(&mut self) -> Result<usize, YamlError> {
        let mut depth = 1;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
                Event::SequenceEnd | Event::MappingEnd => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(end(&span));
            }
        }
    }

    /// Returns the source text of a collection, between its key's colon and its end. It
    /// uses the key's end, because the parser places the start of a block list after its
    /// first dash.
    fn source_between(&self, key_end: usize, value_end: usize) -> &'a str {
        let text = self.source.get(key_end..value_end).unwrap_or("").trim();
        text.strip_prefix(':').unwrap_or(text).trim_start()
    }

    /// Returns the line of an offset. Offsets must not decrease from call to call.
    fn line(&mut self, offset: usize) -> u32 {
        let (from, line) = self.counted;
        if let Some(passed) = self.source.get(from..offset) {
            self.counted = (offset, line.saturating_add(line_ends(passed)));
        }
        self.counted.1
    }

    fn error_here(&self, message: &str) -> YamlError {
        YamlError {
            line: self.counted.1,
            message: message.to_owned(),
        }
    }

    fn error_at(&self, span: &Span, message: &str) -> YamlError {
        YamlError {
            line: line_of(self.source, start(span), self.first_line),
            message: message.to_owned(),
        }
    }
}

/// Returns a scalar. The parser reports a missing value as `~` without source text.
fn scalar<'a>(text: Cow<'a, str>, style: ScalarStyle, span: &Span) -> YamlValue<'a> {
    match style {
        ScalarStyle::Plain if span.is_empty() => YamlValue::Plain(Cow::Borrowed("")),
        ScalarStyle::Plain => YamlValue::Plain(text),
        _ => YamlValue::Text(text),
    }
}

/// Returns whether a node has an anchor or a tag. Aliases need no check: the parser refuses
/// an alias without its anchor, and the anchor is refused first.
fn has_anchor_or_tag(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(_, _, anchor, tag) => *anchor != 0 || tag.is_some(),
        Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag) => {
            *anchor != 0 || tag.is_some()
        }
        _ => false,
    }
}

fn start(span: &Span) -> usize {
    span.start.byte_offset().unwrap_or(0)
}

fn end(span: &Span) -> usize {
    span.end.byte_offset().unwrap_or(0)
}

/// Returns the line of any offset. Line ends are LF and CRLF here and everywhere in this
/// project. The parser also counts a lone CR, so its numbers could lie beyond the file's
/// last line.
fn line_of(source: &str, offset: usize, first_line: u32) -> u32 {
    // An error at the very end belongs to the last line that is not blank.
    let before = source.get(..offset).unwrap_or(source);
    let before = if offset >= source.len() {
        before.trim_end()
    } else {
        before
    };
    first_line.saturating_add(line_ends(before))
}

fn line_ends(text: &str) -> u32 {
    let count = text.bytes().filter(|&byte| byte == b'\n').count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> YamlValue<'_> {
        YamlValue::Text(Cow::Borrowed(text))
    }

    fn plain(text: &str) -> YamlValue<'_> {
        YamlValue::Plain(Cow::Borrowed(text))
    }

    fn entry<'a>(key: &'a str, line: u32, value: YamlValue<'a>) -> YamlEntry<'a> {
        let key = Cow::Borrowed(key);
        YamlEntry { key, line, value }
    }

    #[test]
    fn keeps_the_text_and_notation_of_values() {
        let cases = [
            ("plain, with a comment", "a: b c # d\n", plain("b c")),
            ("number", "a: 1.10\n", plain("1.10")),
            ("no value", "a:\n", plain("")),
            ("double quoted", "a: \"b\\n\"\n", text("b\n")),
            ("single quoted", "a: 'it''s'\n", text("it's")),
            ("literal block", "a: |\n  b\n  c\n", text("b\nc\n")),
            ("folded block", "a: >-\n  b\n  c\n\n", text("b c")),
            ("continuation lines", "a: b\n  c\n\n  d\n", plain("b c\nd")),
            (
                "list at the key's indentation",
                "a:\n- b\n- c # d\n",
                YamlValue::List {
                    items: Some(vec!["b".into(), "c".into()]),
                    source: "- b\n- c # d",
                },
            ),
            (
                "list in brackets",
                "a: [b, [c]]\n",
                YamlValue::List {
                    items: None,
                    source: "[b, [c]]",
                },
            ),
            (
                "map, and the map in it",
                "a:\n  b: 1\n  c:\n    d: {e: f}\n",
                YamlValue::Map {
                    entries: vec![
                        entry("b", 8, plain("1")),
                        entry(
                            "c",
                            9,
                            YamlValue::Map {
                                entries: Vec::new(),
                                source: "d: {e: f}",
                            },
                        ),
                    ],
                    source: "b: 1\n  c:\n    d: {e: f}",
                },
            ),
        ];
        for (name, yaml, want) in cases {
            let read = entries(yaml, 7).map(|mut entries| entries.pop());
            let got = read.map(|entry| entry.map(|entry| entry.value));
            assert_eq!(got, Ok(Some(want)), "{name}");
        }
    }

    #[test]
    fn counts_lines_from_the_start_of_the_file() {
        let yaml = "# comment\r\na: b\r\n\r\nc: |\r\n  d\r\n  e\r\n\"f\": g\r\n";
        let read = entries(yaml, 2).unwrap_or_default();
        let lines: Vec<_> = read.iter().map(|entry| (&*entry.key, entry.line)).collect();
        assert_eq!(lines, [("a", 3), ("c", 5), ("f", 8)]);
    }

    #[test]
    fn reports_the_line_of_an_invalid_map() {
        let many = "a:\n".repeat(MAX_EVENTS);
        let deep = format!("a: {}\n", "[".repeat(MAX_NESTING + 1));
        let cases = [
            ("colon in a value", "a: b\nc: d: e\n", 3),
            ("reserved character", "a: b\n\nc: @d\n", 4),
            ("quote not closed", "a: b\nc: \"d\n", 3),
            ("list at the top", "- a\n- b\n", 2),
            ("text at the top", "just words\n", 2),
            ("second document", "a: b\n--- c\n", 3),
            ("list as a key", "? [a]\n: b\n", 2),
            ("alias", "a: *b\n", 2),
            ("anchor", "a: b\nb: &x\n", 3),
            ("anchor in a list", "a: b\nb:\n  - &x y\n", 4),
            ("anchor of a list", "a: b\nb: &x [c]\n", 3),
            ("anchor of a map", "a: b\nb: &x {c: d}\n", 3),
            ("tag", "a: !!str b\n", 2),
            ("tag of a list", "a: b\nb: !!seq [c]\n", 3),
            ("too deep", &deep, 2),
            ("directive", "%YAML 1.2\n", 2),
        ];
        for (name, yaml, line) in cases {
            let got = entries(yaml, 2).map_err(|refusal| refusal.line);
            assert_eq!(got, Err(line), "{name}");
        }
        assert!(entries(&many, 2).is_err(), "too many");
        for nothing in ["", "\n\n", "# a comment\n"] {
            assert_eq!(entries(nothing, 2), Ok(Vec::new()), "{nothing:?}");
        }
    }
}
