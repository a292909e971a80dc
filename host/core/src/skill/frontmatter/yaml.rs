//! The strict reader: frontmatter as YAML has it.
//!
//! This file and the one below it, which reads the same events as JSON, are the
//! only ones that know the YAML crate. It works on the parser's
//! events and not through serde, because three things would be lost there: the
//! line of each key, the text of a value as it was written (`1.10` is no number
//! here), and the difference between a quoted and a plain scalar.
//!
//! Anchors, aliases and tags are refused: no skill needs them, the reference
//! validator refuses them too, `&this` and `!that` at the start of a description
//! are meant as text, and without them the "billion laughs" expansion is not a
//! thing that could be written.
//!
//! Not here: what a key means ([`super::fields`]), and what to do with text that
//! is not YAML ([`super::lenient`]).

mod json;

use std::borrow::Cow;

use granit_parser::{self, Event, Parser, ScalarStyle, Span, StrInput};

use super::entry::{Entry, Items, Value};

pub(super) use json::object;

/// Parser events in one frontmatter, two for each `key: value`. Against text of
/// nothing but tiny keys, which would cost many times its size in memory.
const MAX_EVENTS: usize = 2048;

/// Nested lists and maps. Against text of nothing but opening brackets; a real
/// skill nests two or three.
const MAX_NESTING: usize = 32;

/// Why a text is not the YAML that frontmatter must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) line: u32,
    pub(super) message: String,
}

/// Reads `yaml`, whose first line is `first_line` of the file, as one map.
/// Nothing but blanks and comments is an empty map.
pub(super) fn entries(yaml: &str, first_line: u32) -> Result<Vec<Entry<'_>>, Refusal> {
    document(yaml, first_line, |events| Ok(events.mapping(0)?.0))
}

/// Reads the one document that there is, and in it one map.
fn document<'a, T: Default>(
    yaml: &'a str,
    first_line: u32,
    mapping: impl FnOnce(&mut Events<'a>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let mut events = Events::new(yaml, first_line);
    events.next()?; // the start of the stream
    if matches!(events.next()?.0, Event::StreamEnd) {
        return Ok(T::default());
    }
    let (event, span) = events.next()?;
    let read = match event {
        Event::MappingStart(..) => mapping(&mut events)?,
        _ => return Err(events.refuse_at(&span, "not a list of `key: value` lines")),
    };
    events.next()?; // the end of the document
    let (event, span) = events.next()?;
    if !matches!(event, Event::StreamEnd) {
        return Err(events.refuse_at(&span, "a second document starts here"));
    }
    Ok(read)
}

/// The parser's events, counted, with the lines they stand on.
struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
    source: &'a str,
    events_left: usize,
    first_line: u32,
    /// A byte offset and the line it is on: events come in the order of the
    /// text, so that counting goes on from here and every byte is counted once.
    counted: (usize, u32),
}

impl<'a> Events<'a> {
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

    fn next(&mut self) -> Result<(Event<'a>, Span), Refusal> {
        let Some(left) = self.events_left.checked_sub(1) else {
            return Err(self.refuse("too many keys and values"));
        };
        self.events_left = left;
        match self.parser.next() {
            Some(Ok((event, span))) if names_something(&event) => {
                Err(self.refuse_at(&span, "anchors, aliases and tags are not allowed here"))
            }
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let offset = error.marker().byte_offset().unwrap_or(0);
                Err(Refusal {
                    line: line_of(self.source, offset, self.first_line),
                    message: error.info(),
                })
            }
            None => Err(self.refuse("the text ends too early")),
        }
    }

    /// The entries of a map whose start has been read, and the offset at which
    /// it ends. `depth` counts the maps around it.
    fn mapping(&mut self, depth: usize) -> Result<(Vec<Entry<'a>>, usize), Refusal> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok((entries, end(&span))),
                Event::Scalar(text, ..) => text,
                _ => return Err(self.refuse_at(&span, "a key must be text")),
            };
            let line = self.line(start(&span));
            let value = self.value(end(&span), depth)?;
            entries.push(Entry { key, line, value });
        }
    }

    /// The value of the key that ends at `key_end`.
    fn value(&mut self, key_end: usize, depth: usize) -> Result<Value<'a>, Refusal> {
        let (event, span) = self.next()?;
        Ok(match event {
            Event::Scalar(text, style, ..) => scalar(text, style, &span),
            Event::SequenceStart(..) => {
                let (items, list_end) = self.list()?;
                let written = self.written(key_end, list_end);
                Value::List { items, written }
            }
            Event::MappingStart(..) => {
                let (entries, map_end) = match depth {
                    0 => self.mapping(depth + 1)?,
                    // Nothing reads a map in a map by its keys.
                    _ => (Vec::new(), self.skip()?),
                };
                let written = self.written(key_end, map_end);
                Value::Map { entries, written }
            }
            _ => return Err(self.refuse_at(&span, "a value is missing")),
        })
    }

    /// The items of a list whose start has been read, if they are all scalars,
    /// and the offset at which it ends.
    fn list(&mut self) -> Result<(Items<'a>, usize), Refusal> {
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
                _ => return Err(self.refuse_at(&span, "a list item is missing")),
            }
        }
    }

    /// Passes over the collection whose start has been read. A loop and a
    /// counter, so that deep nesting costs no stack.
    fn skip(&mut self) -> Result<usize, Refusal> {
        let mut open = 1;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::SequenceStart(..) | Event::MappingStart(..) => open += 1,
                Event::SequenceEnd | Event::MappingEnd => open -= 1,
                _ => {}
            }
            if open == 0 {
                return Ok(end(&span));
            }
        }
    }

    /// The source text of a collection: what stands between its key's colon and
    /// its end. The parser places the start of a block list after its first
    /// dash, which is why the key's end is what counts.
    fn written(&self, key_end: usize, value_end: usize) -> &'a str {
        let text = self.source.get(key_end..value_end).unwrap_or("").trim();
        text.strip_prefix(':').unwrap_or(text).trim_start()
    }

    /// The line of an offset that is not before the last one asked for.
    fn line(&mut self, offset: usize) -> u32 {
        let (from, line) = self.counted;
        if let Some(passed) = self.source.get(from..offset) {
            self.counted = (offset, line.saturating_add(line_ends(passed)));
        }
        self.counted.1
    }

    fn refuse(&self, message: &str) -> Refusal {
        Refusal {
            line: self.counted.1,
            message: message.to_owned(),
        }
    }

    fn refuse_at(&self, span: &Span, message: &str) -> Refusal {
        Refusal {
            line: line_of(self.source, start(span), self.first_line),
            message: message.to_owned(),
        }
    }
}

/// A scalar. One that takes no room in the text is a key without a value, which
/// the parser reports as `~`.
fn scalar<'a>(text: Cow<'a, str>, style: ScalarStyle, span: &Span) -> Value<'a> {
    match style {
        ScalarStyle::Plain if span.is_empty() => Value::Plain(Cow::Borrowed("")),
        ScalarStyle::Plain => Value::Plain(text),
        _ => Value::Text(text),
    }
}

/// Whether a node carries an anchor or a tag, or stands for another.
fn names_something(event: &Event<'_>) -> bool {
    match event {
        Event::Scalar(_, _, anchor, tag) => *anchor != 0 || tag.is_some(),
        Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag) => {
            *anchor != 0 || tag.is_some()
        }
        Event::Alias(_) | Event::UnresolvedAlias(_) => true,
        _ => false,
    }
}

fn start(span: &Span) -> usize {
    span.start.byte_offset().unwrap_or(0)
}

fn end(span: &Span) -> usize {
    span.end.byte_offset().unwrap_or(0)
}

/// The line of any offset. Line ends are LF and CRLF here and everywhere in this
/// project; the parser also counts a lone CR, so that its own numbers could lie
/// beyond the file's last line.
fn line_of(source: &str, offset: usize, first_line: u32) -> u32 {
    // An error at the very end is about the last line with something on it.
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

    fn text(text: &str) -> Value<'_> {
        Value::Text(Cow::Borrowed(text))
    }

    fn plain(text: &str) -> Value<'_> {
        Value::Plain(Cow::Borrowed(text))
    }

    fn entry<'a>(key: &'a str, line: u32, value: Value<'a>) -> Entry<'a> {
        let key = Cow::Borrowed(key);
        Entry { key, line, value }
    }

    #[test]
    fn values_keep_their_text_and_notation() {
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
                Value::List {
                    items: Some(vec!["b".into(), "c".into()]),
                    written: "- b\n- c # d",
                },
            ),
            (
                "list in brackets",
                "a: [b, [c]]\n",
                Value::List {
                    items: None,
                    written: "[b, [c]]",
                },
            ),
            (
                "map, and the map in it",
                "a:\n  b: 1\n  c:\n    d: {e: f}\n",
                Value::Map {
                    entries: vec![
                        entry("b", 8, plain("1")),
                        entry(
                            "c",
                            9,
                            Value::Map {
                                entries: Vec::new(),
                                written: "d: {e: f}",
                            },
                        ),
                    ],
                    written: "b: 1\n  c:\n    d: {e: f}",
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
    fn keys_stand_on_lines_of_the_file() {
        let yaml = "# comment\r\na: b\r\n\r\nc: |\r\n  d\r\n  e\r\n\"f\": g\r\n";
        let read = entries(yaml, 2).unwrap_or_default();
        let lines: Vec<_> = read.iter().map(|entry| (&*entry.key, entry.line)).collect();
        assert_eq!(lines, [("a", 3), ("c", 5), ("f", 8)]);
    }

    #[test]
    fn what_is_no_map_is_refused_with_its_line() {
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
            ("tag", "a: !!str b\n", 2),
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
