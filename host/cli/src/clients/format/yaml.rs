//! YAML. No maintained crate edits YAML and keeps its comments, so this file inserts and removes
//! whole lines, by the positions of the parser's events.

use std::ops::Range;

use anyhow::{Context as _, anyhow, bail, ensure};
use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput, StructureStyle};
use serde_json::{Map, Value};

use super::EntryPath;

/// The maximum nesting of lists and objects. Guards against: a text of opening brackets.
const MAX_NESTING: usize = 64;

/// A node of the text.
struct Node {
    /// The range in the text. A list or object without brackets ends with its last child.
    range: Range<usize>,
    content: Content,
}

enum Content {
    Scalar(Value),
    List(Vec<Node>),
    /// An object, which YAML calls a mapping, and whether it is written in braces.
    Object(Vec<(Node, Node)>, bool),
}

/// Parses the text. An empty text is an empty object.
pub(super) fn read(text: &str) -> anyhow::Result<Value> {
    parse(text)?.map_or(Ok(Map::new().into()), |root| root.value())
}

/// Sets an entry of a valid text, or removes it if `entry` is `None`.
pub(super) fn edit(
    text: &str,
    entry_path: EntryPath<'_>,
    entry: Option<&Value>,
) -> anyhow::Result<String> {
    let without = remove(text, entry_path)?;
    match entry {
        Some(entry) => insert(&without, entry_path, entry),
        None => Ok(without),
    }
}

fn remove(text: &str, entry_path: EntryPath<'_>) -> anyhow::Result<String> {
    let root = parse(text)?;
    let servers = root.as_ref().and_then(|root| root.get(entry_path.key));
    let Some((servers_key, servers)) = servers else {
        return Ok(text.to_owned());
    };
    let Some((key, entry)) = servers.get(entry_path.name) else {
        return Ok(text.to_owned());
    };
    let start = line_start(text, key.range.start);
    ensure!(
        text[start..key.range.start].trim().is_empty() && !servers.is_in_braces(),
        "its `{}` is in braces, or the entry does not start a line",
        entry_path.key
    );
    let end = next_line_start(text, entry.range.end.max(key.range.end));
    let mut edited = text.to_owned();
    edited.replace_range(start..end, "");
    if servers.len() == 1 {
        // Without entries, the value would be null, not an object.
        let colon = text[servers_key.range.end..].find(':');
        let colon = colon.with_context(|| format!("its key `{}` has no colon", entry_path.key))?;
        let colon = servers_key.range.end + colon;
        edited.insert_str(colon + 1, " {}");
    }
    Ok(edited)
}

fn insert(text: &str, entry_path: EntryPath<'_>, entry: &Value) -> anyhow::Result<String> {
    let line_feed = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let root = parse(text)?;
    ensure!(
        !root.as_ref().is_some_and(Node::is_in_braces),
        "its top level is in braces"
    );
    let servers = root.as_ref().and_then(|root| root.get(entry_path.key));
    let mut edited = text.to_owned();
    let Some((key, servers)) = servers else {
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited.push_str(line_feed);
        }
        edited.push_str(&format!("{}:{line_feed}", entry_path.key));
        edited.push_str(&lines(entry_path.name, entry, "  ", line_feed));
        return Ok(edited);
    };
    let mut indentation = "  ".to_owned();
    match &servers.content {
        Content::Object(entries, false) => {
            let first = entries.first().map_or(key, |(key, _)| key).range.start;
            text[line_start(text, first)..first].clone_into(&mut indentation);
            ensure!(
                indentation.trim().is_empty(),
                "the first key of its `{}` does not start a line",
                entry_path.key
            );
        }
        Content::Object(entries, true) => {
            ensure!(entries.is_empty(), "its `{}` is in braces", entry_path.key);
            let start = text[..servers.range.start].trim_end().len();
            edited.replace_range(start..servers.range.end, "");
        }
        Content::Scalar(Value::Null) => edited.replace_range(servers.range.clone(), ""),
        _ => bail!("its `{}` is not an object", entry_path.key),
    }
    // Insert after the line of the key, above the comments of the first entry.
    let mut at = next_line_start(&edited, key.range.end);
    if !edited[..at].ends_with('\n') {
        edited.push_str(line_feed);
        at = edited.len();
    }
    edited.insert_str(at, &lines(entry_path.name, entry, &indentation, line_feed));
    Ok(edited)
}

/// Returns the lines of an entry. A JSON value is also a YAML value.
fn lines(name: &str, entry: &Value, indentation: &str, line_feed: &str) -> String {
    let mut lines = format!("{indentation}{name}:{line_feed}");
    for (key, value) in entry.as_object().into_iter().flatten() {
        lines.push_str(&format!("{indentation}  {key}: {value}{line_feed}"));
    }
    lines
}

/// Returns the start of the line that contains an offset.
fn line_start(text: &str, offset: usize) -> usize {
    text[..offset].rfind('\n').map_or(0, |end| end + 1)
}

/// Returns the start of the line after a node that ends at an offset. Skips white space before the
/// offset, because a block scalar contains its last line ends.
fn next_line_start(text: &str, offset: usize) -> usize {
    let offset = text[..offset].trim_end().len();
    let end = text[offset..].find('\n');
    end.map_or(text.len(), |end| offset + end + 1)
}

/// Parses a text with at most one document. Returns `None` if it has none.
fn parse(text: &str) -> anyhow::Result<Option<Node>> {
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_NESTING,
        block_nesting_limit: MAX_NESTING,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let mut events = Events { parser, text };
    events.next()?; // the start of the stream
    if matches!(events.next()?.0, Event::StreamEnd) {
        return Ok(None);
    }
    let first = events.next()?;
    let root = events.node(first)?;
    events.next()?; // the end of the document
    let (event, span) = events.next()?;
    if !matches!(event, Event::StreamEnd) {
        return Err(events.refuse(&span, "a second document starts here"));
    }
    Ok(Some(root))
}

struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
    text: &'a str,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> anyhow::Result<(Event<'a>, Span)> {
        match self.parser.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let offset = error.marker().byte_offset().unwrap_or(0);
                let (line, column) = super::position(self.text, offset);
                Err(anyhow!("line {line}, column {column}: {}", error.info()))
            }
            None => bail!("the text ends too early"),
        }
    }

    fn node(&mut self, (event, span): (Event<'a>, Span)) -> anyhow::Result<Node> {
        let mut range = offsets(&span);
        let content = match event {
            Event::Scalar(text, style, ..) => Content::Scalar(scalar(&text, style)),
            Event::Alias(id) => Content::Scalar(format!("*{id}").into()),
            Event::SequenceStart(style, ..) => {
                let mut items: Vec<Node> = Vec::new();
                let end = loop {
                    match self.next()? {
                        (Event::SequenceEnd, span) => break offsets(&span).end,
                        event => items.push(self.node(event)?),
                    }
                };
                range.end = match items.last() {
                    Some(last) if style == StructureStyle::Block => last.range.end,
                    _ => end,
                };
                Content::List(items)
            }
            Event::MappingStart(style, ..) => {
                let mut entries: Vec<(Node, Node)> = Vec::new();
                let end = loop {
                    match self.next()? {
                        (Event::MappingEnd, span) => break offsets(&span).end,
                        event => {
                            let key = self.node(event)?;
                            let event = self.next()?;
                            entries.push((key, self.node(event)?));
                        }
                    }
                };
                let is_in_braces = style == StructureStyle::Flow;
                range.end = match entries.last() {
                    Some((key, value)) if !is_in_braces => key.range.end.max(value.range.end),
                    _ => end,
                };
                Content::Object(entries, is_in_braces)
            }
            _ => return Err(self.refuse(&span, "a value is missing")),
        };
        Ok(Node { range, content })
    }

    fn refuse(&self, span: &Span, why: &str) -> anyhow::Error {
        let (line, column) = super::position(self.text, offsets(span).start);
        anyhow!("line {line}, column {column}: {why}")
    }
}

impl Node {
    /// Returns the key and the value of an object's entry.
    fn get(&self, name: &str) -> Option<(&Self, &Self)> {
        let Content::Object(entries, _) = &self.content else {
            return None;
        };
        let is_named = |key: &Self| matches!(&key.content, Content::Scalar(key) if key == name);
        let entry = entries.iter().find(|(key, _)| is_named(key));
        entry.map(|(key, value)| (key, value))
    }

    fn len(&self) -> usize {
        match &self.content {
            Content::Object(entries, _) => entries.len(),
            _ => 0,
        }
    }

    fn is_in_braces(&self) -> bool {
        matches!(self.content, Content::Object(_, true))
    }

    fn value(&self) -> anyhow::Result<Value> {
        Ok(match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => {
                let items = items.iter().map(Self::value);
                Value::Array(items.collect::<anyhow::Result<_>>()?)
            }
            Content::Object(entries, _) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    let key = match key.value()? {
                        Value::String(key) => key,
                        key => key.to_string(),
                    };
                    ensure!(!map.contains_key(&key), "the key `{key}` occurs twice");
                    map.insert(key, value.value()?);
                }
                map.into()
            }
        })
    }
}

/// Parses a plain null, boolean or integer. Other scalars stay text: neither an entry nor the
/// comparison of two texts needs their types.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return text.into();
    }
    match text {
        "" | "~" | "null" => Value::Null,
        "true" => true.into(),
        "false" => false.into(),
        _ => match text.parse::<i64>() {
            Ok(number) if number.to_string() == text => number.into(),
            _ => text.into(),
        },
    }
}

fn offsets(span: &Span) -> Range<usize> {
    let offset = |marker: Marker| marker.byte_offset().unwrap_or(0);
    offset(span.start)..offset(span.end)
}
