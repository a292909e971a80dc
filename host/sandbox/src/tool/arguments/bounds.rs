//! The bounds of a schema, its compilation, and checks with it. A schema is a stranger's:
//! whatever it says, checking with it must take neither long nor much memory.

use anyhow::Context as _;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

/// The most values in a schema. Guards against: a schema that takes long to check
/// with.
pub(super) const SCHEMA_VALUES: usize = 2_000;

/// The bytes of a pattern's automaton. Guards against: a short pattern that counts
/// to thousands, which is slow on every character of a long text.
const PATTERN_BYTES: usize = 16 << 10;

/// Keywords by which a schema refers to others, itself among them. Guards against: a
/// few lines that stand for a million.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords that check what their neighbours have left out, for which these are evaluated
/// again. Guards against: forty of them within each other, by which one value is checked
/// a million times a million.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Keywords whose parts are tried once more for each such keyword around them, to say
/// why none of them fits.
const CHOICES: [&str; 2] = ["anyOf", "oneOf"];

/// Keywords that say what a schema is. Below the root, they change what other keywords mean.
const IDENTITIES: [&str; 2] = ["$id", "$schema"];

/// The most bytes of a pattern, and the most classes such as `\d` in it. The library takes
/// time in proportion to the square of these to read it.
const PATTERN_LENGTH: usize = 512;
const PATTERN_CLASSES: usize = 32;

/// The most bytes of the paths to all values of a schema. Compiled, each part keeps its own.
const PATHS_BYTES: usize = 4 << 20;

/// The most bytes of text that all patterns of a schema are tried on, together. The
/// slowest pattern takes a second for a MiB.
const PATTERN_TEXT: usize = 4 << 20;

/// The most times that a value of a schema is tried on a value. The slowest, a fraction in
/// `multipleOf` on a large number, takes two microseconds.
const MOST_CHECKS: usize = 4_000_000;

/// The most pairs of values that `uniqueItems` compares: some numbers are alike for it until
/// they are compared.
const MOST_PAIRS: usize = 10_000_000_000;

/// The most bytes that a search for what does not fit may take. For each value of a
/// schema it can copy each value that is checked, its path, and a text of the schema.
const SEARCH_BYTES: usize = 64 << 20;

/// The bytes that an error takes besides what it copies.
const ERROR_BYTES: usize = 300;

/// What decides how long checking with a schema takes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SchemaSize {
    values: usize,
    /// The times that values of the schema are tried, of all together.
    checks: usize,
    /// Those of patterns, and those of `uniqueItems`.
    pub(super) patterns: usize,
    unique: usize,
    /// The most bytes of the schema that an error copies.
    copied: usize,
}

/// What decides how long a value takes to be checked.
#[derive(Default)]
struct ValueSize {
    values: usize,
    /// The bytes of strings and names.
    text: usize,
    longest_path: usize,
}

/// A stranger's schema, ready to check values.
pub struct BoundedValidator {
    validator: Validator,
    size: SchemaSize,
}

/// Why a value does not pass.
pub enum Misfit<'v> {
    /// This does not fit.
    At(ValidationError<'v>),
    /// Something does not fit. To find it takes too much memory.
    Somewhere,
    /// The value has so many bytes of text that the schema's patterns take too long.
    /// At most so many are checked.
    TooMuchText(usize, usize),
    /// The value has so many values that checking takes too long.
    TooManyValues(usize),
}

impl BoundedValidator {
    /// Checks and compiles a schema. `what` names it in the error.
    pub fn new(schema: &Value, what: &str) -> anyhow::Result<Self> {
        let size = SchemaSize::of(schema, what)?;
        Self::compile(schema, size, what)
    }

    /// Compiles a schema that was checked.
    pub(super) fn compile(schema: &Value, size: SchemaSize, what: &str) -> anyhow::Result<Self> {
        let validator = jsonschema::draft202012::options()
            // Linear time: patterns come from strangers.
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
    pub fn check<'v>(&self, value: &'v Value) -> Result<(), Misfit<'v>> {
        let (schema, found) = (&self.size, ValueSize::of(value));
        let most = PATTERN_TEXT / schema.patterns.max(1);
        if schema.patterns > 0 && found.text > most {
            return Err(Misfit::TooMuchText(found.text, most));
        }
        let pairs = found.values.saturating_pow(2);
        if found.values.saturating_mul(schema.checks) > MOST_CHECKS
            || pairs.saturating_mul(schema.unique) > MOST_PAIRS
        {
            return Err(Misfit::TooManyValues(found.values));
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let error = ERROR_BYTES + schema.copied + found.longest_path;
        let bytes = found
            .text
            .saturating_add(found.values.saturating_mul(error));
        if bytes.saturating_mul(schema.values) > SEARCH_BYTES {
            return Err(Misfit::Somewhere);
        }
        self.validator.validate(value).map_err(Misfit::At)
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
                    // A character may be written as two.
                    let within = |key: &String| path + 1 + 2 * key.len();
                    rest.extend(object.iter().map(|(key, value)| (value, within(key))));
                }
                _ => {}
            }
        }
        size
    }
}

/// Returns the number of values in a value, with itself.
pub(crate) fn number_of_values(value: &Value) -> usize {
    ValueSize::of(value).values
}

/// A value of a schema.
struct Part<'s> {
    value: &'s Value,
    /// The bytes of the path to it.
    path: usize,
    /// How often it is tried on a value.
    times: usize,
    /// True within a schema with a keyword of [`UNEVALUATED`].
    is_within: bool,
}

impl SchemaSize {
    /// Measures a schema, and refuses one that could take long to check with, or to read.
    pub(super) fn of(schema: &Value, what: &str) -> anyhow::Result<Self> {
        let mut size = Self::default();
        let mut paths = 0;
        let own_name = schema.get("$id").and_then(Value::as_str);
        let mut rest = vec![Part {
            value: schema,
            path: own_name.map_or(0, str::len),
            times: 1,
            is_within: false,
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
                "{what} has names that are too long, for so many values below them"
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

    /// Adds what a schema itself has.
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
            anyhow::bail!("{what} has `{keyword}`: write out what it refers to");
        }
        let has_text = |keyword: &&&str| schema.get(**keyword).is_some_and(Value::is_string);
        if let Some(keyword) = IDENTITIES.iter().find(has_text).filter(|_| !is_root) {
            anyhow::bail!("{what} has `{keyword}` below its root: leave it out");
        }
        let unevaluated = find(&UNEVALUATED);
        if let Some(keyword) = unevaluated.filter(|_| part.is_within) {
            anyhow::bail!(
                "{what} has `{keyword}` within another such keyword: keep the outermost alone"
            );
        }
        part.is_within |= unevaluated.is_some();
        // Each schema within one with such a keyword is tried once more, to see what it leaves
        // out.
        part.times += usize::from(part.is_within);
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
    /// Adds the values within this one.
    fn push_parts(&self, into: &mut Vec<Part<'s>>) {
        let within = |value, name: usize, is_choice| Part {
            value,
            path: self.path + 1 + name,
            times: self.times + usize::from(is_choice),
            is_within: self.is_within,
        };
        match self.value {
            Value::Object(object) => into.extend(object.iter().map(|(key, value)| {
                let is_choice = CHOICES.contains(&key.as_str());
                // A character may be written as three.
                within(value, 3 * key.len(), is_choice)
            })),
            Value::Array(array) => {
                into.extend(array.iter().map(|value| within(value, 4, false)));
            }
            _ => {}
        }
    }
}

/// Returns the patterns in a schema itself.
fn patterns(schema: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let own = schema.get("pattern").and_then(Value::as_str);
    let of_names = schema.get("patternProperties").and_then(Value::as_object);
    let of_names = of_names.into_iter().flat_map(Map::keys);
    own.into_iter().chain(of_names.map(String::as_str))
}

/// Returns the number of classes such as `\d` in a pattern, and of control characters.
fn classes(pattern: &str) -> usize {
    let pairs = pattern.as_bytes().windows(2);
    pairs
        .filter(|pair| pair[0] == b'\\' && b"dDwWsSc".contains(&pair[1]))
        .count()
}

#[cfg(test)]
mod tests;
