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

/// The most bytes of text that all patterns of a schema are tried on, together. The
/// slowest pattern takes a second for a MiB.
const PATTERN_TEXT: usize = 4 << 20;

/// The most bytes that a search for what does not fit may take. For each value of a
/// schema it can copy each value that is checked.
const SEARCH_BYTES: usize = 64 << 20;

/// The bytes that an error takes besides the value that it copies.
const ERROR_BYTES: usize = 300;

/// What decides how long checking with a schema takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaSize {
    values: usize,
    /// The times that a pattern is tried on a text, of all patterns together.
    patterns: usize,
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
        let (values, text) = measure(value);
        let most = PATTERN_TEXT / self.size.patterns.max(1);
        if self.size.patterns > 0 && text > most {
            return Err(Misfit::TooMuchText(text, most));
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let bytes = text.saturating_add(values.saturating_mul(ERROR_BYTES));
        if bytes.saturating_mul(self.size.values) > SEARCH_BYTES {
            return Err(Misfit::Somewhere);
        }
        self.validator.validate(value).map_err(Misfit::At)
    }
}

/// Returns the number of values within a value, and the bytes of their text and names.
fn measure(value: &Value) -> (usize, usize) {
    let (mut values, mut text) = (0, 0);
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        values += 1;
        match value {
            Value::String(string) => text += string.len(),
            Value::Array(array) => rest.extend(array),
            Value::Object(object) => {
                text += object.keys().map(String::len).sum::<usize>();
                rest.extend(object.values());
            }
            _ => {}
        }
    }
    (values, text)
}

impl SchemaSize {
    /// Measures a schema, and refuses one that could take long to check with, or to read.
    pub(super) fn of(schema: &Value, what: &str) -> anyhow::Result<Self> {
        let mut size = Self {
            values: 0,
            patterns: 0,
        };
        // With each value, whether it is within a schema with such a keyword, and how often
        // it is tried.
        let mut rest = vec![(schema, false, 1)];
        while let Some((value, is_within, times)) = rest.pop() {
            size.values += 1;
            anyhow::ensure!(
                size.values <= SCHEMA_VALUES,
                "{what} has more than {SCHEMA_VALUES} values"
            );
            match value {
                Value::Object(object) => {
                    let find = |keywords: &'static [&str]| {
                        let mut keywords = keywords.iter();
                        keywords.find(|keyword| object.contains_key(**keyword))
                    };
                    if let Some(keyword) = find(&REFERENCES) {
                        anyhow::bail!("{what} has `{keyword}`: write out what it refers to");
                    }
                    let unevaluated = find(&UNEVALUATED);
                    if let Some(keyword) = unevaluated.filter(|_| is_within) {
                        anyhow::bail!(
                            "{what} has `{keyword}` within another such keyword: keep the \
                             outermost alone"
                        );
                    }
                    let is_within = is_within || unevaluated.is_some();
                    let times = times + usize::from(unevaluated.is_some());
                    size.patterns += times * patterns(object);
                    rest.extend(object.iter().map(|(key, value)| {
                        let is_choice = CHOICES.contains(&key.as_str());
                        (value, is_within, times + usize::from(is_choice))
                    }));
                }
                Value::Array(array) => {
                    rest.extend(array.iter().map(|value| (value, is_within, times)));
                }
                _ => {}
            }
        }
        Ok(size)
    }
}

/// Returns the number of patterns in a schema itself.
fn patterns(schema: &Map<String, Value>) -> usize {
    let own = schema.get("pattern").is_some_and(Value::is_string);
    let of_names = schema.get("patternProperties").and_then(Value::as_object);
    usize::from(own) + of_names.map_or(0, Map::len)
}
