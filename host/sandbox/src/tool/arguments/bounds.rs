//! Compiles schemas and checks values, within bounds. Schemas are untrusted, but checks with any
//! of them must be fast and need little memory.

use anyhow::Context as _;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

/// The maximum number of values in a schema. Guards against: slow checks.
pub(super) const SCHEMA_VALUES: usize = 2_000;

/// The maximum size of a pattern's automaton, in bytes. Guards against: a short pattern with large
/// repetitions, which is slow for every character of a long text.
const PATTERN_BYTES: usize = 16 << 10;

/// Keywords that refer to other schemas or the schema itself. Guards against: a few lines
/// that expand to a million.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords that evaluate the keywords beside them once more. Guards against: forty such keywords
/// inside one another, which check one value 2^40 times.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Keywords with alternatives. To explain why none matches, the validator tries an alternative
/// once more for each such keyword around it.
const CHOICES: [&str; 2] = ["anyOf", "oneOf"];

/// Keywords that identify a schema. Below the root, they change the meaning of other
/// keywords.
const IDENTITIES: [&str; 2] = ["$id", "$schema"];

/// The maximum length of a pattern in bytes, and the maximum number of classes such as `\d` in it.
/// Parsing takes time proportional to the square of both.
const PATTERN_LENGTH: usize = 512;
const PATTERN_CLASSES: usize = 32;

/// The maximum length of the paths to all values of a schema together, in bytes. Each compiled part
/// stores its path.
const PATHS_BYTES: usize = 4 << 20;

/// The maximum size of a value's text in bytes, times the number of patterns that are matched
/// against it. The slowest pattern takes a second per MiB.
const PATTERN_TEXT: usize = 4 << 20;

/// The maximum number of checks, each of one value with one part of the schema. The slowest,
/// a fraction in `multipleOf` with a large number, takes two microseconds.
const MAX_CHECKS: usize = 4_000_000;

/// The maximum number of pairs that `uniqueItems` compares. It compares all pairs if all items
/// have the same hash, as some large numbers do.
const MAX_PAIRS: usize = 10_000_000_000;

/// The maximum size of all errors that the search for a mismatch creates, in bytes. For each value
/// of a schema, an error can copy each checked value, its path, and a text of the schema.
const SEARCH_BYTES: usize = 64 << 20;

/// The size of an error in bytes, without the texts that it copies.
const ERROR_BYTES: usize = 300;

/// The cost of checks with a schema.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SchemaSize {
    values: usize,
    /// The number of checks of one value with all parts of the schema.
    checks: usize,
    /// The number of these checks that apply a pattern.
    pub(super) patterns: usize,
    /// The number of these checks that compare items, for `uniqueItems`.
    unique: usize,
    /// The size of the largest text that an error copies from the schema, in bytes.
    copied: usize,
}

/// The size of a value, which decides the cost of checking it.
#[derive(Default)]
struct ValueSize {
    values: usize,
    /// The size of all strings and names, in bytes.
    text: usize,
    longest_path: usize,
}

/// An untrusted schema, ready to check values.
pub struct BoundedValidator {
    validator: Validator,
    size: SchemaSize,
}

/// The reason why a value is refused.
pub enum Mismatch<'v> {
    /// This part does not match.
    At(ValidationError<'v>),
    /// Some part does not match, but finding it takes too much memory.
    Somewhere,
    /// The value has too many bytes of text for the schema's patterns: the bytes, and the
    /// maximum.
    TooMuchText(usize, usize),
    /// The value contains too many values: their number.
    TooManyValues(usize),
}

impl BoundedValidator {
    /// Checks and compiles a schema. `what` is its name in errors.
    pub fn new(schema: &Value, what: &str) -> anyhow::Result<Self> {
        let size = SchemaSize::of(schema, what)?;
        Self::compile(schema, size, what)
    }

    /// Compiles a checked schema.
    pub(super) fn compile(schema: &Value, size: SchemaSize, what: &str) -> anyhow::Result<Self> {
        let validator = jsonschema::draft202012::options()
            // A linear-time engine, because patterns are untrusted.
            .with_pattern_options(
                PatternOptions::regex()
                    .size_limit(PATTERN_BYTES)
                    .dfa_size_limit(PATTERN_BYTES),
            )
            .build(schema)
            .map_err(|error| anyhow::anyhow!("{error}"))
            .with_context(|| format!("{what} is not valid"))?;
        Ok(Self { validator, size })
    }

    /// Checks a value.
    pub fn check<'v>(&self, value: &'v Value) -> Result<(), Mismatch<'v>> {
        let (schema, found) = (&self.size, ValueSize::of(value));
        let max = PATTERN_TEXT / schema.patterns.max(1);
        if schema.patterns > 0 && found.text > max {
            return Err(Mismatch::TooMuchText(found.text, max));
        }
        let pairs = found.values.saturating_pow(2);
        if found.values.saturating_mul(schema.checks) > MAX_CHECKS
            || pairs.saturating_mul(schema.unique) > MAX_PAIRS
        {
            return Err(Mismatch::TooManyValues(found.values));
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let error = ERROR_BYTES + schema.copied + found.longest_path;
        let bytes = found
            .text
            .saturating_add(found.values.saturating_mul(error));
        if bytes.saturating_mul(schema.values) > SEARCH_BYTES {
            return Err(Mismatch::Somewhere);
        }
        self.validator.validate(value).map_err(Mismatch::At)
    }
}

impl ValueSize {
    fn of(value: &Value) -> Self {
        const INDEX: usize = 8;
        let mut size = Self::default();
        let mut rest = vec![(value, 0)];
        while let Some((value, path)) = rest.pop() {
            size.values += 1;
            size.longest_path = size.longest_path.max(path);
            match value {
                Value::String(string) => size.text += string.len(),
                Value::Array(array) => rest.extend(array.iter().map(|value| (value, path + INDEX))),
                Value::Object(object) => {
                    size.text += object.keys().map(String::len).sum::<usize>();
                    // Escaping can turn one character into two.
                    let within = |key: &String| path + 1 + 2 * key.len();
                    rest.extend(object.iter().map(|(key, value)| (value, within(key))));
                }
                _ => {}
            }
        }
        size
    }
}

/// Returns the number of values in a value, counting the value itself.
pub(crate) fn number_of_values(value: &Value) -> usize {
    ValueSize::of(value).values
}

/// A value inside a schema.
struct Part<'s> {
    value: &'s Value,
    /// The length of its path, in bytes.
    path: usize,
    /// The number of times that a check of one value evaluates this part.
    times: usize,
    /// True inside a schema with an [`UNEVALUATED`] keyword.
    in_unevaluated: bool,
}

impl SchemaSize {
    /// Measures a schema. Refuses it if it could be slow to parse or to check values with.
    pub(super) fn of(schema: &Value, what: &str) -> anyhow::Result<Self> {
        let mut size = Self::default();
        let mut paths = 0;
        let id = schema.get("$id").and_then(Value::as_str);
        let mut rest = vec![Part {
            value: schema,
            path: id.map_or(0, str::len),
            times: 1,
            in_unevaluated: false,
        }];
        while let Some(mut part) = rest.pop() {
            size.values += 1;
            paths += part.path;
            anyhow::ensure!(
                size.values <= SCHEMA_VALUES,
                "{what} has more than {SCHEMA_VALUES} values"
            );
            anyhow::ensure!(
                paths <= PATHS_BYTES,
                "{what} has names that are too long for the number of values below them"
            );
            if let Value::String(text) = part.value {
                size.copied = size.copied.max(text.len());
            }
            if let Value::Object(object) = part.value {
                let is_root = size.values == 1;
                size.add(object, is_root, &mut part, what)?;
            }
            size.checks += part.times;
            part.push_parts(&mut rest);
        }
        Ok(size)
    }

    /// Adds the cost of a schema's own keywords, without that of the schemas inside it.
    fn add(
        &mut self,
        schema: &Map<String, Value>,
        is_root: bool,
        part: &mut Part<'_>,
        what: &str,
    ) -> anyhow::Result<()> {
        let find = |keywords: &'static [&str]| {
            let mut keywords = keywords.iter();
            keywords.find(|keyword| schema.contains_key(**keyword))
        };
        if let Some(keyword) = find(&REFERENCES) {
            anyhow::bail!("{what} has `{keyword}`: write the referenced schema in its place");
        }
        let has_text = |keyword: &&&str| schema.get(**keyword).is_some_and(Value::is_string);
        if let Some(keyword) = IDENTITIES.iter().find(has_text).filter(|_| !is_root) {
            anyhow::bail!("{what} has `{keyword}` below its root: leave it out");
        }
        let unevaluated = find(&UNEVALUATED);
        if let Some(keyword) = unevaluated.filter(|_| part.in_unevaluated) {
            anyhow::bail!(
                "{what} has `{keyword}` inside another such keyword: use only the outermost"
            );
        }
        part.in_unevaluated |= unevaluated.is_some();
        // Each schema inside a schema with an `UNEVALUATED` keyword is checked once more.
        part.times += usize::from(part.in_unevaluated);
        for pattern in patterns(schema) {
            anyhow::ensure!(
                pattern.len() <= PATTERN_LENGTH && classes(pattern) <= PATTERN_CLASSES,
                "{what} has a pattern of more than {PATTERN_LENGTH} bytes, or with more than \
                 {PATTERN_CLASSES} classes such as `\\d`: write a shorter one"
            );
            self.patterns += part.times;
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            self.unique += part.times;
        }
        let not = schema.get("not").map(|not| {
            let size = ValueSize::of(not);
            size.text + size.values * ERROR_BYTES
        });
        let names = schema.keys().map(String::len);
        self.copied = names.chain(not).fold(self.copied, usize::max);
        Ok(())
    }
}

impl<'s> Part<'s> {
    /// Adds the values inside this one.
    fn push_parts(&self, into: &mut Vec<Part<'s>>) {
        let within = |value, name: usize, is_choice| Part {
            value,
            path: self.path + 1 + name,
            times: self.times + usize::from(is_choice),
            in_unevaluated: self.in_unevaluated,
        };
        match self.value {
            Value::Object(object) => into.extend(object.iter().map(|(key, value)| {
                let is_choice = CHOICES.contains(&key.as_str());
                // Escaping can turn one character into three.
                within(value, 3 * key.len(), is_choice)
            })),
            Value::Array(array) => {
                into.extend(array.iter().map(|value| within(value, 4, false)));
            }
            _ => {}
        }
    }
}

/// Returns a schema's own patterns, without those of the schemas inside it.
fn patterns(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let own = schema.get("pattern").and_then(Value::as_str);
    let name_patterns = schema.get("patternProperties").and_then(Value::as_object);
    let name_patterns = name_patterns.into_iter().flat_map(Map::keys);
    own.into_iter().chain(name_patterns.map(String::as_str))
}

/// Returns the number of classes such as `\d`, and of control characters such as `\cA`, in a
/// pattern.
fn classes(pattern: &str) -> usize {
    let pairs = pattern.as_bytes().windows(2);
    pairs
        .filter(|pair| pair[0] == b'\\' && b"dDwWsSc".contains(&pair[1]))
        .count()
}

#[cfg(test)]
mod tests;
